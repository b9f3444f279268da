"""The judge's side of the conversation with the oracle, which decides whose fault a missing answer is.

If the reference raises, that is the reference's fault (ProblemError). If the candidate's process described
tensors that do not match their files, that is the candidate's fault (Refused). A GPU that lacks memory
(OutOfMemory) is nobody's fault. Every other failure, including the end of the oracle's process, is an
EnvironmentFault that carries the traceback, and never a verdict.
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
"""Module that an oracle's process runs."""
_MEASURED = {"max_abs_err", "max_rel_err", "ratio"}
_WEIGHED = _MEASURED | {"finding", "status", "native_error", "left_out"}
"""Keys of a comparison's answer: errors, a finding, or the reason why the inputs are inconclusive."""

_GPU_ERROR = "CUDA error"
"""Prefix of torch's message for a driver error, after which the process can no longer use the GPU."""


class OracleClient:
    """Client that asks the oracle about one problem.

    `child` is the oracle's process. The client does not end it.
    """

    def __init__(self, child: Child, problem: str) -> None:
        self._child, self._problem = child, problem
        self._environment: Message | None = None

    def ask(self, command: Message, limit_s: float = ORACLE_LIMIT_S) -> Message:
        """Return the oracle's answer. Raises ProblemError, OutOfMemory or EnvironmentFault."""
        reply = self._reply(command, limit_s)
        if "error" not in reply:
            return reply
        if reply.get("blame") == "reference":
            raise ProblemError(f"{self._problem}: the reference failed: {reply['error']}")
        raise _failed("the oracle", reply)

    def environment(self) -> Message:
        """Return versions of the software and names of the hardware of the oracle, asked for only once."""
        if self._environment is None:
            self._environment = self.ask(to_oracle(oracle_commands.Environment()))
        return self._environment

    def weigh(self, command: Message) -> Message:
        """Return the comparison of the outputs that the candidate's process described.

        Raises Refused if the description does not match the outputs' files.
        """
        reply = self._comparison(command)
        if not (reply.keys() <= _WEIGHED and ("finding" in reply or reply.keys() >= _MEASURED)):
            raise defect("the comparison", f"it answered {str(reply)[:200]}")
        return reply

    def fits(self, outputs: Message) -> bool:
        """Return True if the outputs' structure and values match the present draw. Raises Refused."""
        return bool(self._comparison(to_oracle(oracle_commands.Fits(outputs)))["fits"])

    def trace_of(self, source: str) -> Trace | None:
        """Return a trace of the reference with other sizes, or None if it does not run with them."""
        seen = self.ask(to_oracle(oracle_commands.Trace(source)))["trace"]
        return None if seen is None else Trace.model_validate(seen)

    def attempt(self, command: Message, limit_s: float = ORACLE_LIMIT_S) -> Message:
        """Return the answer unchanged, including any `error`, for uses that change no verdict.

        Raises ChildFault.
        """
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
            # The process was killed or exceeded its time limit, perhaps because the machine is busy.
            raise passing(defect("the oracle", f"the reference's process {fault}", self._child.log)) from None
        if reply.get("blame") == "memory":
            raise OutOfMemory(
                f"{self._problem}: there is too little memory on this GPU to judge at these sizes; end what "
                "else uses it, or choose smaller sizes or a GPU with more memory",
                str(reply.get("traceback", "")),
            )
        return reply


def _failed(part: str, reply: Message) -> EnvironmentFault:
    """Return the EnvironmentFault for an internal error, marked as passing if it is a CUDA error."""
    error = str(reply["error"])
    fault = defect(part, error, str(reply.get("traceback", "")))
    return passing(fault) if _GPU_ERROR in error else fault
