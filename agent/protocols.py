"""The seams. Everything else is a function."""

from typing import NamedTuple, Protocol

from agent.errors import EnvironmentFault
from agent.records import Attempt, Candidate, Completion, Evaluation, Event, Problem, Prompt


class Provider(Protocol):
    """The LLM side."""

    @property
    def name(self) -> str: ...

    def complete(self, prompt: Prompt) -> Completion:
        """The answer to one prompt.

        Raises EndpointError when the provider failed for good.
        """
        ...


class Executor(Protocol):
    """Where candidates are judged."""

    @property
    def name(self) -> str: ...

    def evaluate(self, problem: Problem, candidate: Candidate) -> Evaluation:
        """The verdict on one candidate; the candidate's faults are values.

        Where a second look is due besides, the verdict says that it is not confirmed. Raises EnvironmentFault
        when nothing can be judged here, AwaitingGpu where another machine does that, Rebuilt for a program
        that was judged before in this run.
        """
        ...

    def confirm(self, problem: Problem, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        """The verdict of the second look at what `evaluation` verified; `evaluation` where none is due.

        Called in a thread of its own while others are evaluated. Raises EnvironmentFault when it cannot be
        made here.
        """
        ...


class Look(NamedTuple):
    """How a second look ended."""

    found: Evaluation | EnvironmentFault
    """The verdict that stands from now on, or what kept the look from being made."""
    seconds: float | None = None


class Confirmer(Protocol):
    """Makes second looks beside the search, one at a time."""

    def begin(self, attempt: Attempt) -> None:
        """Begins the look at a verified attempt; the one before it has ended."""
        ...

    def ready(self) -> bool:
        """Whether the look that was begun has ended, so that its outcome is told now."""
        ...

    def outcome(self) -> Look:
        """How it ended; waits for that."""
        ...


class Pace(Protocol):
    """When a question is asked, and which round's turn it is: what the search may not decide for itself."""

    def begins(self, prompt: Prompt, beside: int) -> bool:
        """Whether a question is asked now, while so many rounds are open."""
        ...

    def turn(self) -> int | None:
        """The round whose answer or verdict is taken up next; None: that of whichever ends first."""
        ...


class Pacing(NamedTuple):
    """What decides when things happen."""

    confirmer: Confirmer
    pace: Pace


class Transcript(Protocol):
    """Where a run is written down."""

    def append(self, event: Event) -> Event | None:
        """Puts one event on disk before it returns.

        Returns the event that is on disk in its place, where the run was stopped after it and goes on again.
        """
        ...
