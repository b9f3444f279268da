"""The three seams. Everything else is a function."""

from typing import Protocol

from agent.records import Candidate, Completion, Evaluation, Event, Problem, Prompt


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

    def evaluate(self, problem: Problem, candidate: Candidate, best: Evaluation | None = None) -> Evaluation:
        """The verdict on one candidate; the candidate's faults are values.

        One that beats `best` may be looked at once more before. Raises EnvironmentFault when nothing can be
        judged here.
        """
        ...


class Transcript(Protocol):
    """Where a run is written down."""

    def append(self, event: Event) -> None:
        """Puts one event on disk before it returns."""
        ...
