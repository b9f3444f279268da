"""A stored run as an object: its problem, its attempts and its best kernel."""

from functools import cached_property
from os import PathLike
from pathlib import Path

from agent import config, ranking, store
from agent.errors import UsageError
from agent.records import Attempt, Event, Problem, RunFinished


class Run:
    """A run on disk, read lazily. Use `reload` to read a run in progress again.

    >>> run = Run.open("recorded/group_norm")
    >>> [str(attempt.evaluation.status) for attempt in run.attempts]
    ['build_error', 'incorrect', 'incorrect', 'verified']
    >>> run.best.number
    4
    """

    def __init__(self, folder: store.Run) -> None:
        self.folder = folder

    @classmethod
    def open(cls, address: str | PathLike[str], *, runs_dir: Path | None = None) -> "Run":
        """Open the run at a path, by id, by a unique prefix of an id, or as `recorded/NAME`.

        Raises UsageError with the runs that the address could mean.
        """
        runs_dir = runs_dir or config.load({}, offline=True).settings.runs_dir
        return cls(store.open_run(str(address), runs_dir))

    def __repr__(self) -> str:
        return f"Run.open({self.address!r})"

    @property
    def id(self) -> str:
        return self.folder.id

    @property
    def address(self) -> str:
        """Return the address that a user types for this run: the id, `recorded/NAME`, or a path."""
        return self.folder.address

    @property
    def path(self) -> Path:
        return self.folder.path

    @cached_property
    def log(self) -> store.Log:
        """Return every event of the run, with a note on each line that cannot be read."""
        return self.folder.read()

    def reload(self) -> "Run":
        """Return the same run without its cached log."""
        return Run(self.folder)

    @property
    def events(self) -> tuple[Event, ...]:
        return self.log.events

    @property
    def problem(self) -> Problem:
        """Return the problem of the run. Raises UsageError if the run stopped before its first round."""
        if self.log.started is None:
            raise UsageError(
                f"run {self.address} stopped before its first round and does not contain its problem"
            )
        return self.log.started.problem

    @property
    def finished(self) -> RunFinished | None:
        """Return how the run ended, or None if it is in progress or was killed."""
        return self.log.finished

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """Return every judged candidate with its evaluation, in the order of judging."""
        return self.log.attempts

    @property
    def best(self) -> Attempt | None:
        """Return the best verified attempt, or None if nothing was verified."""
        return ranking.best_of(self.log.attempts, self.log.finished)

    @property
    def best_file(self) -> Path | None:
        """Return the path of `best.py`, the best kernel, or None if nothing was verified."""
        path = self.path / store.BEST
        return path if self.best is not None and path.is_file() else None

    @property
    def best_source(self) -> str | None:
        """Return the source of the best kernel, a file with ModelNew, or None if nothing was verified."""
        if self.best is None:
            return None
        return self.best_file.read_text(encoding="utf-8") if self.best_file else self.best.candidate.source
