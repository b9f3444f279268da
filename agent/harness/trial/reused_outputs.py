"""Check that outputs of many calls do not share memory, as in ring buffers.

The draws are too few calls to wrap a large ring buffer. Further calls use the inputs of the last draw, and
their outputs are kept alive but never compared. Some of these calls run their kernels, so that forward can
read results back. In many more calls only the host code runs, which is fast. An output may share memory only
with the tensors that the oracle allowed in the last draw.

A candidate that keeps its returned tensors gets more calls. So does a candidate whose host code passes
kernels a different part of a kept allocation in each call. Its further calls have memory checks.
"""

from collections.abc import Callable
from typing import Any

from agent.harness.backends import workspace
from agent.harness.messages.commands import to_worker
from agent.harness.task import faults, protocol
from agent.harness.task.faults import Refused
from agent.harness.trial.worker_client import WorkerClient
from agent.harness.worker.worker_commands import Further
from agent.records import Finding, Status
from agent.sandbox import ChildFault

COMPUTED, HELD = 64, 128
"""Maximum number of calls that run kernels, and of calls that run host code only."""
SECONDS = 0.25
"""Maximum seconds of processor time for each kind of call; one call is always made."""
LONGER, LONGER_SECONDS = 12_000, 6.0
"""Maximum calls and seconds for a candidate that keeps its outputs or uses parts of an allocation in turn."""
LIMIT_S = 30.0
ENOUGH = 32
"""Number of calls that is enough for the scope to need no note."""


class ReusedOutputs:
    """Check that outputs of further calls share no memory, in the protocols `full` and `reduced`."""

    def __init__(self, candidate: WorkerClient, name: protocol.Name, may_run: Callable[[str], bool]) -> None:
        """Prepare the check; `may_run` returns True for a torch operator that is allowed."""
        self._candidate, self._wanted = candidate, name in ("full", "reduced")
        self._may_run = may_run
        self.allowed: list[list[str]] = []
        """Kinds of tensors with which each output of the last draw may share memory."""
        self._calls = 0

    def check_computing(self, *, slots: bool = False) -> None:
        """Make calls that run their kernels. Raises Refused.

        `slots` is True if the candidate uses parts of a kept allocation in turn.
        """
        if not self._wanted:
            return
        answer = self._candidate.tell(_computing(slots=slots), "running forward")
        self._candidate.check(answer, "run", "a further call of forward failed")
        self._weigh(answer)

    def check_host(self) -> tuple[str, ...]:
        """Make calls in which only the host code runs; the process cannot compute anything afterwards.

        Returns the scope's note if too few calls were made. Raises Refused.
        """
        if not self._wanted:
            return ()
        try:
            answer = self._candidate.ask(_command(HELD, host_only=True), LIMIT_S)
        except ChildFault as fault:
            answer = {"error": {"message": f"the process {fault}"}}
        if "error" in answer:
            why = str(answer["error"]["message"])
        else:
            self._weigh(answer)
            foreign = [name.strip("_") for name in answer["operators"] if not self._may_run(name)]
            if foreign:
                found = _other_operators(foreign)
                raise Refused(Status.REJECTED, "integrity", [found])
            why = answer["stopped"] or "their memory or time was used up"
        if self._calls >= ENOUGH:
            return ()
        return (f"outputs of more than {self._calls} further calls held at once: {why[:300]}",)

    def _weigh(self, answer: dict[str, Any]) -> None:
        allowed = [kind for kinds in self.allowed for kind in kinds]
        finding = faults.overlapping([answer["shared"]], [allowed])
        if finding is None and answer["idle"]:
            finding = faults.NO_LAUNCH
        if finding is not None:
            raise Refused(Status.REJECTED, "verify", [finding])
        self._calls += answer["calls"]


def _computing(*, slots: bool) -> dict[str, Any]:
    if slots:
        return _command(LONGER, host_only=False, seconds=LONGER_SECONDS, checked=True)
    return _command(COMPUTED, host_only=False)


def _command(
    times: int, *, host_only: bool, seconds: float = SECONDS, checked: bool = False
) -> dict[str, Any]:
    held = workspace.KEPT_BYTES
    return to_worker(Further(times, seconds, held, host_only, LONGER, LONGER_SECONDS, checked))


def _other_operators(names: list[str]) -> Finding:
    message = (
        f"In later calls of forward torch's {', '.join(names[:4])} runs, which it did not before and which "
        "--library-ops does not allow: every call has to be computed by this file's kernels."
    )
    return Finding(kind="calls-behave-differently", message=message)
