"""The processes that are timed, as the clock needs them."""

from typing import Any, Protocol

from agent.harness.messages import oracle_commands
from agent.harness.messages.commands import to_oracle
from agent.harness.messages.oracle_client import OracleClient
from agent.harness.task import faults
from agent.records import Finding, Status

Message = dict[str, Any]


class TimedWorker(Protocol):
    """A worker whose calls are timed."""

    def timed(self, command: Message) -> Message:
        """The answer to a command of the clock's; the candidate's raises Refused where the call fails."""
        ...


class TimedProcesses:
    """A candidate's worker, one that does nothing, and the oracle."""

    def __init__(self, candidate: TimedWorker, noop: TimedWorker, oracle: OracleClient) -> None:
        self.candidate, self.noop, self._oracle = candidate, noop, oracle
        self.notes: list[Finding] = []

    def oracle(self, command: Message) -> Message:
        """The oracle's answer; a baseline that is missing joins `notes`."""
        answer = self._oracle.ask(command)
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
        claims = oracle_commands.TimedClaims(answer["types"], answer["devices"])
        self._check(oracle_commands.JudgeTaken(outputs, claims), closely)

    def check_of_row(self, answer: Message, seed: int) -> None:
        """The same for the call of a row whose outputs were taken; it was on the contents of `seed`."""
        if not answer.get("there"):
            raise faults.Refused(Status.REJECTED, "measure", [faults.protocol_violation()])
        self.oracle(to_oracle(oracle_commands.Recall(seed)))
        self._check(oracle_commands.JudgeTaken(None, oracle_commands.TimedClaims()), closely=False)

    def _check(self, judged: oracle_commands.JudgeTaken, closely: bool) -> None:
        if not (closely or self.oracle(to_oracle(oracle_commands.Glance())).get("doubtful")):
            return
        reply = self._oracle.weigh(to_oracle(judged))
        if "finding" in reply:
            found = Finding.model_validate(reply["finding"])
            found = found.model_copy(update={"message": f"In a timed call: {found.message}"})
            raise faults.Refused(Status.INCORRECT, "measure", [found])
