"""A run as an object: what was asked, what was answered and judged, and the best kernel."""

from functools import cached_property
from os import PathLike
from pathlib import Path

from agent import config, ranking, store
from agent.errors import UsageError
from agent.records import Attempt, Event, Problem, RunFinished


class Run:
    """A run on disk, read when an attribute is first used; `reload` reads a run that is still going on again.

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
        """The run at a path, by id, by a unique prefix of an id, or `recorded/NAME`.

        Raises UsageError that lists the runs it could have meant.
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
        """What a user types to name it: the id, `recorded/NAME`, or a path."""
        return self.folder.address

    @property
    def path(self) -> Path:
        return self.folder.path

    @cached_property
    def log(self) -> store.Log:
        """Every event of the run, and what is wrong with lines that cannot be read."""
        return self.folder.read()

    def reload(self) -> "Run":
        """The same run, read anew."""
        return Run(self.folder)

    @property
    def events(self) -> tuple[Event, ...]:
        return self.log.events

    @property
    def problem(self) -> Problem:
        """What the run was asked to solve. Raises UsageError for a run that stopped before it began."""
        if self.log.started is None:
            raise UsageError(
                f"run {self.address} stopped before its first round and does not contain its problem"
            )
        return self.log.started.problem

    @property
    def finished(self) -> RunFinished | None:
        """How the run ended; None while it goes on, and for one that was killed."""
        return self.log.finished

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """Every judged candidate with its evaluation, in the order in which they were judged."""
        return self.log.attempts

    @property
    def best(self) -> Attempt | None:
        """The best verified attempt; None where nothing was verified."""
        return ranking.best_of(self.log.attempts, self.log.finished)

    @property
    def best_file(self) -> Path | None:
        """`best.py`, the best kernel as a file of its own; None where nothing was verified."""
        path = self.path / store.BEST
        return path if self.best is not None and path.is_file() else None

    @property
    def best_source(self) -> str | None:
        """The text of the best kernel, a Python file with ModelNew; None where nothing was verified."""
        if self.best is None:
            return None
        return self.best_file.read_text(encoding="utf-8") if self.best_file else self.best.candidate.source
