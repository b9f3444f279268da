"""Interfaces between the loop and its providers, executors, confirmers, pace and transcript."""

from typing import NamedTuple, Protocol

from agent.errors import EnvironmentFault
from agent.records import Attempt, Candidate, Completion, Evaluation, Event, Problem, Prompt


class Provider(Protocol):
    """Source of answers, such as an LLM."""

    @property
    def name(self) -> str: ...

    def complete(self, prompt: Prompt) -> Completion:
        """Return the answer to one prompt.

        Raises EndpointError if the provider failed for good.
        """
        ...


class Executor(Protocol):
    """Place where candidates are judged."""

    @property
    def name(self) -> str: ...

    def evaluate(self, problem: Problem, candidate: Candidate) -> Evaluation:
        """Return the verdict on one candidate. The candidate's faults are values.

        If a second look is due, the verdict is marked as not confirmed. Raises EnvironmentFault if nothing
        can be judged here, and AwaitingGpu if another machine has to judge. Raises Rebuilt for a program that
        was judged before in this run.
        """
        ...

    def confirm(self, problem: Problem, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        """Return the verdict of the second look at a verified candidate, or `evaluation` if none is due.

        Called in a separate thread while other candidates are evaluated. Raises EnvironmentFault if the look
        cannot be made here.
        """
        ...


class Look(NamedTuple):
    """Outcome of a second look at a candidate."""

    found: Evaluation | EnvironmentFault
    """New verdict, or the fault that prevented the look."""
    seconds: float | None = None


class Confirmer(Protocol):
    """Makes second looks in parallel with the search, one at a time."""

    def begin(self, attempt: Attempt) -> None:
        """Start the look at a verified attempt. The previous look must have ended."""
        ...

    def ready(self) -> bool:
        """Return True if the current look has ended and its outcome is to be recorded now."""
        ...

    def outcome(self) -> Look:
        """Wait for the end of the current look and return its outcome."""
        ...


class Pace(Protocol):
    """Decides when a prompt is sent and which round is processed next."""

    def begins(self, prompt: Prompt, beside: int) -> bool:
        """Return True if the prompt may be sent now, while `beside` rounds are open."""
        ...

    def turn(self) -> int | None:
        """Return the round whose answer or verdict is processed next. None is the first to end."""
        ...


class Pacing(NamedTuple):
    """The objects that decide the timing of a search."""

    confirmer: Confirmer
    pace: Pace


class Transcript(Protocol):
    """Record of a run's events."""

    def append(self, event: Event) -> Event | None:
        """Write one event to disk before returning.

        In a resumed run, returns the event that is already on disk in its place. Otherwise returns None.
        """
        ...
