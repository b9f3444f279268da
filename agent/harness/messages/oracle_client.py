"""The judge's side of the conversation with the oracle: whose fault it is when there is no answer.

The user's reference raising is the reference's fault (ProblemError). A description of tensors that came from
the candidate's process and does not fit them is the candidate's (Refused). Memory that a GPU lacks is
nobody's, and everything else, the oracle's end included, ours: an EnvironmentFault that carries the
traceback, and never a verdict.
"""

from typing import Any

from agent.errors import EnvironmentFault, OutOfMemory, ProblemError, defect, passing
from agent.harness.messages import oracle_commands
from agent.harness.messages.commands import to_oracle
from agent.harness.task import faults
from agent.harness.task.job import ORACLE_LIMIT_S
from agent.records import Status, Trace
from agent.sandbox import Child, ChildFault

Message = dict[str, Any]
ORACLE = "agent.harness.oracle.server"
"""The module that an oracle's process runs."""
_MEASURED = {"max_abs_err", "max_rel_err", "ratio"}
_WEIGHED = _MEASURED | {"finding", "status", "native_error", "left_out"}
"""What a comparison says: how far off it is, or the finding, or why the inputs tell nothing."""

_GPU_ERROR = "CUDA error"
"""Words of torch for what the driver reports; the process that saw it can do nothing more on the GPU."""


class OracleClient:
    """Asks the oracle in `child` about one problem. `child`: its process; whoever started it ends it."""

    def __init__(self, child: Child, problem: str) -> None:
        self._child, self._problem = child, problem
        self._environment: Message | None = None

    def ask(self, command: Message, limit_s: float = ORACLE_LIMIT_S) -> Message:
        """The answer. Raises ProblemError or EnvironmentFault."""
        reply = self._reply(command, limit_s)
        if "error" not in reply:
            return reply
        if reply.get("blame") == "reference":
            raise ProblemError(f"{self._problem}: the reference failed: {reply['error']}")
        raise _failed("the oracle", reply)

    def environment(self) -> Message:
        """What it computes with and on; asked for once."""
        if self._environment is None:
            self._environment = self.ask(to_oracle(oracle_commands.Environment()))
        return self._environment

    def weigh(self, command: Message) -> Message:
        """The answer about what the candidate's process described. Raises Refused where that does not fit."""
        reply = self._comparison(command)
        if not (reply.keys() <= _WEIGHED and ("finding" in reply or reply.keys() >= _MEASURED)):
            raise defect("the comparison", f"it answered {str(reply)[:200]}")
        return reply

    def fits(self, outputs: Message) -> bool:
        """Whether structure and values are those of the present draw. Raises Refused as `weigh` does."""
        return bool(self._comparison(to_oracle(oracle_commands.Fits(outputs)))["fits"])

    def trace_of(self, source: str) -> Trace | None:
        """What the reference does with other sizes; None where it does not run with them."""
        seen = self.ask(to_oracle(oracle_commands.Trace(source)))["trace"]
        return None if seen is None else Trace.model_validate(seen)

    def attempt(self, command: Message, limit_s: float = ORACLE_LIMIT_S) -> Message:
        """The answer as it is, an `error` included; for what changes no verdict. Raises ChildFault."""
        return self._child.ask(command, limit_s)

    def _comparison(self, command: Message) -> Message:
        reply = self._reply(command, ORACLE_LIMIT_S)
        if reply.get("blame") == "description":
            raise faults.Refused(Status.REJECTED, "verify", [faults.protocol_violation(str(reply["error"]))])
        if "error" in reply:
            raise _failed("the comparison", reply)
        return reply

    def _reply(self, command: Message, limit_s: float) -> Message:
        try:
            reply = self._child.ask(command, limit_s)
        except ChildFault as fault:
            # Killed, or slow beyond its limit: what else this machine does may be the reason.
            raise passing(defect("the oracle", f"the reference's process {fault}", self._child.log)) from None
        if reply.get("blame") == "memory":
            raise OutOfMemory(
                f"{self._problem}: there is too little memory on this GPU to judge at these sizes; end what "
                "else uses it, or choose smaller sizes or a GPU with more memory",
                str(reply.get("traceback", "")),
            )
        return reply


def _failed(part: str, reply: Message) -> EnvironmentFault:
    """Return the fault behind an error of ours, as a passing one where the GPU was lost on the way."""
    error = str(reply["error"])
    fault = defect(part, error, str(reply.get("traceback", "")))
    return passing(fault) if _GPU_ERROR in error else fault
