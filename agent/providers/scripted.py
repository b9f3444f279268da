"""Answers from a prepared list, for recorded runs and tests.

Contract: request N gets answer N, whatever the prompt. A request after the last answer is an error.
"""

from collections.abc import Sequence

from agent.errors import EndpointError
from agent.records import Completion, Prompt


class Scripted:
    """A provider over a list of answers. A string becomes a completion with finish reason `stop`."""

    name = "scripted"

    def __init__(self, answers: Sequence[str | Completion]) -> None:
        self._answers = tuple(answers)
        self._given = 0

    def complete(self, prompt: Prompt) -> Completion:
        """Return the next answer. Raises EndpointError after the last."""
        if self._given == len(self._answers):
            raise EndpointError(
                f"scripted: all {self._given} answers are used up; add one or ask for fewer rounds (--rounds)"
            )
        answer = self._answers[self._given]
        self._given += 1
        if isinstance(answer, Completion):
            return answer
        return Completion(provider=self.name, model=None, text=answer, finish_reason="stop")
