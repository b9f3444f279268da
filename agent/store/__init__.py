"""Runs on disk: one folder each, append-only, readable and resumable after any crash.

    runs/<id>/run.toml        what was asked for; no secrets
    runs/<id>/events.jsonl    one event per line, on disk before the run goes on
    runs/<id>/blobs/<sha256>  long texts of the events, by content
    runs/<id>/best.py         the best verified candidate, self-contained
    runs/index.sqlite         derived: what lists show of each run; may be deleted at any time

Nothing is ranked or judged here, and no text is rendered for a model.
"""

from agent.store import history
from agent.store.best import BEST, remove_best, write_best
from agent.store.folder import (
    Run,
    RunInfo,
    RunSettings,
    create,
    open_run,
    resolve_attempt,
    resolve_candidate,
    run_folders,
)
from agent.store.index import list_runs, newest_first, recorded_runs
from agent.store.log import Damage, Log, Round
from agent.store.resume import Resume
from agent.store.summary import Best, RunState, RunSummary, state_of, summary_of
from agent.store.writer import Writer

__all__ = [
    "BEST",
    "Best", "Damage", "Log", "Resume", "Round", "Run", "RunInfo", "RunSettings", "RunState", "RunSummary",
    "Writer", "create", "list_runs", "open_run", "resolve_attempt", "resolve_candidate", "run_folders",
    "history", "newest_first", "recorded_runs", "remove_best", "state_of", "summary_of", "write_best",
]  # fmt: skip
