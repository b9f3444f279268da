"""Runs on disk. Each run is one append-only folder, readable and resumable after any crash.

    runs/<id>/run.toml        settings of the run; no secrets
    runs/<id>/events.jsonl    one event per line, on disk before the run continues
    runs/<id>/blobs/<sha256>  long texts of the events, by content
    runs/<id>/best.py         the best verified candidate, self-contained
    runs/index.sqlite         derived summaries for lists of runs; may be deleted at any time

This package ranks nothing, judges nothing and renders no text for a model.
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
