"""The processes that are timed, as the clock needs them."""

from collections.abc import Callable
from typing import Any

from agent.harness import faults
from agent.records import Finding, Status

Message = dict[str, Any]
Ask = Callable[[Message], Message]


class Bench:
    """A candidate's worker, one that does nothing, and the oracle, for timing."""

    def __init__(self, candidate: Ask, nothing: Ask, oracle: Ask, weigh: Ask) -> None:
        """`candidate` and `weigh` raise Refused: for a call that fails, and for outputs that do not fit."""
        self.candidate, self.nothing, self._oracle, self._weigh = candidate, nothing, oracle, weigh
        self.notes: list[Finding] = []

    def oracle(self, command: Message) -> Message:
        answer = self._oracle(command)
        for name, reason in (answer.get("problems") or {}).items():
            message = f"The reference could not be timed under {name}: {reason}"
            self.notes.append(Finding(kind="baseline-missing", severity="note", message=message))
        return answer

    def check(self, answer: Message, *, closely: bool = True) -> None:
        """Raises Refused where the outputs of a timed call, which were taken, are not right.

        Where not `closely` they are held against the truth only if a glance at all of them leaves a doubt.
        """
        outputs = answer.get("outputs")
        if not isinstance(outputs, dict):
            raise faults.Refused(Status.REJECTED, "measure", [faults.protocol_violation()])
        self._check({"outputs": outputs, "claims": answer}, closely)

    def check_of_row(self, answer: Message, seed: int) -> None:
        """The same for the call of a row whose outputs were taken; it was on the contents of `seed`."""
        if not answer.get("there"):
            raise faults.Refused(Status.REJECTED, "measure", [faults.protocol_violation()])
        self.oracle({"do": "recall", "seed": seed})
        self._check({"claims": {}}, closely=False)

    def _check(self, judged: Message, closely: bool) -> None:
        if not (closely or self.oracle({"do": "glance"}).get("doubtful")):
            return
        reply = self._weigh({"do": "judge_taken", **judged})
        if "finding" in reply:
            found = Finding.model_validate(reply["finding"])
            found = found.model_copy(update={"message": f"In a timed call: {found.message}"})
            raise faults.Refused(Status.INCORRECT, "measure", [found])
