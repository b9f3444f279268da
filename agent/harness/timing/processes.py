"""Interface between `benchmark` and the timed processes."""

from typing import Any, Protocol

from agent.harness.messages import oracle_commands
from agent.harness.messages.commands import to_oracle
from agent.harness.messages.oracle_client import OracleClient
from agent.harness.task import faults
from agent.records import Finding, Status

Message = dict[str, Any]


class TimedWorker(Protocol):
    """Worker whose calls are timed: the candidate's or the noop worker."""

    def timed(self, command: Message) -> Message:
        """Return the answer to a timing command. A candidate's worker raises Refused if the call fails."""
        ...


class TimedProcesses:
    """Processes that take part in timing: the candidate's worker, the noop worker and the oracle."""

    def __init__(self, candidate: TimedWorker, noop: TimedWorker, oracle: OracleClient) -> None:
        self.candidate, self.noop, self._oracle = candidate, noop, oracle
        self.notes: list[Finding] = []

    def oracle(self, command: Message) -> Message:
        """Return the oracle's answer to a command, and add a note for each baseline that it lacks."""
        answer = self._oracle.ask(command)
        for name, reason in (answer.get("problems") or {}).items():
            message = f"The reference could not be timed under {name}: {reason}"
            self.notes.append(Finding(kind="baseline-missing", severity="note", message=message))
        return answer

    def check(self, answer: Message, *, closely: bool = True) -> None:
        """Raise Refused if the outputs taken from a timed call are wrong.

        If `closely`, they are compared with the ground truth. If not, a quick check of all elements decides,
        and outputs that fail it are compared with the ground truth.
        """
        outputs = answer.get("outputs")
        if not isinstance(outputs, dict):
            raise faults.Refused(Status.REJECTED, "measure", [faults.protocol_violation()])
        claims = oracle_commands.TimedClaims(answer["types"], answer["devices"])
        self._check(oracle_commands.JudgeTaken(outputs, claims), closely)

    def check_of_row(self, answer: Message, seed: int) -> None:
        """Raise Refused if the outputs taken from a call of a row, on inputs of `seed`, are wrong."""
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
