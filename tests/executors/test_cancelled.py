"""A verdict that nobody wants any more is not waited for."""

import pytest
from e2e.commands import answer

from agent import Checks, Judge, Listener, parse
from agent.errors import Interrupted
from agent.records import Completion


class _Leaves(Listener):
    """Wants the verdict until the judge begins to build."""

    gone = False

    def update(self, text: str, done: float | None = None, total: float | None = None) -> None:
        self.gone = self.gone or text == "building"

    def cancelled(self) -> bool:
        return self.gone


@pytest.mark.timeout(600)  # probes the problem first
def test_the_judge_of_a_cancelled_evaluation_is_ended() -> None:
    answered = Completion(provider="test", model=None, text=answer(4))
    candidate = parse.candidate("level1/group_norm", answered, None)
    judge = Judge("level1/group_norm", executor="emulator", checks=Checks(quick=True), progress=_Leaves())
    with pytest.raises(Interrupted, match="before there was a verdict"):
        judge.evaluate(candidate)
