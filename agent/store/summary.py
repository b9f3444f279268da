"""What there is under runs/, one line per run, without opening a blob."""

from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Literal

from agent.errors import AgentError
from agent.records import Attempt, Record, RunFinished
from agent.store.folder import Run, RunInfo, run_folders
from agent.store.log import Log
from agent.store.writer import is_being_written

RunState = Literal["running", "finished", "interrupted", "failed", "killed", "damaged", "recorded"]


class RunSummary(Record):
    """One run as `agent runs` lists it."""

    id: str
    path: Path
    state: RunState
    """`killed`: it has no end, and nobody writes it; resumable like `interrupted` and `failed`.

    `recorded`: kept beside the sources or shipped, whatever its end.
    """
    info: RunInfo | None
    """None when run.toml is missing or damaged."""
    finished: RunFinished | None
    rounds: int
    """Rounds that were begun."""
    attempts: tuple[Attempt, ...]
    """In order; sources and other long texts are left empty."""
    damaged_lines: int

    @property
    def created(self) -> datetime | None:
        return self.info.created if self.info else None


def list_runs(runs_dir: Path) -> list[RunSummary]:
    """All runs under `runs_dir`, newest first; a folder that is damaged is listed as such, never hidden."""
    summaries = [_summary(Run(path, path.name)) for path in run_folders(runs_dir)]
    return sorted(
        summaries, key=lambda run: (run.created.timestamp() if run.created else 0.0, run.id), reverse=True
    )


def state_of(run: Run, log: Log) -> RunState:
    """Derived from the lock and the last event, so that a killed run needs nobody to mark it."""
    if is_being_written(run.path):
        return "running"
    if run.recorded:
        return "recorded"
    if log.finished is None:
        return "killed"
    match log.finished.outcome:
        case "interrupted":
            return "interrupted"
        case "failed":
            return "failed"
        case _:
            return "finished"


def _summary(run: Run) -> RunSummary:
    info: RunInfo | None = None
    log = Log()
    state: RunState = "damaged"
    # The state says that it is damaged; `agent show` gives the reason.
    with suppress(AgentError):
        log = run.read(texts=False)
        info = run.info
        state = state_of(run, log)
    return RunSummary(
        id=run.id,
        path=run.path,
        state=state,
        info=info,
        finished=log.finished,
        rounds=max((entry.number for entry in log.rounds), default=0),
        attempts=log.attempts,
        damaged_lines=len(log.problems),
    )
