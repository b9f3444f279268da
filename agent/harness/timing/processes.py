"""Interface of the clock to the timed processes."""

from typing import Any, Protocol

from agent.harness.messages import oracle_commands
from agent.harness.messages.commands import to_oracle
from agent.harness.messages.oracle_client import OracleClient
from agent.harness.task import faults
from agent.records import Finding, Status

Message = dict[str, Any]


class TimedWorker(Protocol):
    """Worker whose calls are timed."""

    def timed(self, command: Message) -> Message:
        """Return the answer to a command of the clock. The candidate's raises Refused if the call fails."""
        ...


class TimedProcesses:
    """Worker of the candidate, no-op worker and oracle."""

    def __init__(self, candidate: TimedWorker, noop: TimedWorker, oracle: OracleClient) -> None:
        self.candidate, self.noop, self._oracle = candidate, noop, oracle
        self.notes: list[Finding] = []

    def oracle(self, command: Message) -> Message:
        """Return the oracle's answer and add missing baselines to `notes`."""
        answer = self._oracle.ask(command)
        for name, reason in (answer.get("problems") or {}).items():
            message = f"The reference could not be timed under {name}: {reason}"
            self.notes.append(Finding(kind="baseline-missing", severity="note", message=message))
        return answer

    def check(self, answer: Message, *, closely: bool = True) -> None:
        """Raise Refused if the outputs taken from a timed call are wrong.

        Unless `closely`, a quick check of all outputs comes first; the ground truth decides only in doubt.
        """
        outputs = answer.get("outputs")
        if not isinstance(outputs, dict):
            raise faults.Refused(Status.REJECTED, "measure", [faults.protocol_violation()])
        claims = oracle_commands.TimedClaims(answer["types"], answer["devices"])
        self._check(oracle_commands.JudgeTaken(outputs, claims), closely)

    def check_of_row(self, answer: Message, seed: int) -> None:
        """Raise Refused if outputs taken from a row's call are wrong; its contents were drawn with `seed`."""
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
