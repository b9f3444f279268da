"""Answers written beforehand, given in order whatever is asked.

Contract: answer N goes to request N; a request beyond the last is an error. For recorded runs and tests.
"""

from collections.abc import Sequence

from agent.errors import EndpointError
from agent.records import Completion, Prompt


class Scripted:
    """A provider over a list of answers; a plain text becomes a completion that stopped of itself."""

    name = "scripted"

    def __init__(self, answers: Sequence[str | Completion]) -> None:
        self._answers = tuple(answers)
        self._given = 0

    def complete(self, prompt: Prompt) -> Completion:
        """The next answer. Raises EndpointError after the last."""
        if self._given == len(self._answers):
            raise EndpointError(
                f"scripted: all {self._given} answers are used up; add one or ask for fewer rounds (--rounds)"
            )
        answer = self._answers[self._given]
        self._given += 1
        if isinstance(answer, Completion):
            return answer
        return Completion(provider=self.name, model=None, text=answer, finish_reason="stop")
