"""Check that outputs of many calls do not share memory, as in rings of buffers or slabs that wrap.

The draws are too few for a large ring to come round. Further calls use the inputs of the last draw, and their
outputs are held but never compared. Some of these calls compute, so that forward can read what it likes. In
many more, only the host code runs, which is cheap. An output may share memory only as the oracle allowed in
the last draw.

A candidate that keeps what it returns gets more calls. So does one whose host code passes a different place
of its own memory in each call, such as slots of a workspace. The latter calls have memory checks.
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
"""Maximum number of computing and of host-only calls."""
SECONDS = 0.25
"""Maximum seconds of processor time for each kind of call; one call is always made."""
LONGER, LONGER_SECONDS = 12_000, 6.0
"""Limits for a candidate that keeps what it returns, or takes slots of a workspace."""
LIMIT_S = 30.0
ENOUGH = 32
"""Number of calls from which on the scope needs no note."""


class ReusedOutputs:
    """Check for shared memory in calls of `candidate` after its draws, if the protocol includes it."""

    def __init__(self, candidate: WorkerClient, name: protocol.Name, may_run: Callable[[str], bool]) -> None:
        """Prepare the check; `may_run` returns True for a torch operator that is allowed."""
        self._candidate, self._wanted = candidate, name in ("full", "reduced")
        self._may_run = may_run
        self.allowed: list[list[str]] = []
        """Memory that each output of the last draw may share."""
        self._calls = 0

    def check_computing(self, *, slots: bool = False) -> None:
        """Make calls that compute. With `slots`, each uses another place of a workspace. Raises Refused."""
        if not self._wanted:
            return
        answer = self._candidate.tell(_computing(slots=slots), "running forward")
        self._candidate.check(answer, "run", "a further call of forward failed")
        self._weigh(answer)

    def check_host(self) -> tuple[str, ...]:
        """Make calls in which only the host code runs; the process cannot compute anything afterwards.

        Returns what was left out, for the scope. Raises Refused.
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
