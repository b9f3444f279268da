"""Whether outputs of many calls lie in memory of their own: rings of buffers, slabs that wrap.

The draws are too few for a large ring to come round. More calls follow on the inputs of the last draw, whose
outputs are held and never looked at: some that compute, so that forward can read what it likes, then many of
which the host code alone runs, at the price of that. Where an output may lie is what the oracle has allowed
in the last draw. There are more calls of a candidate that keeps what it returns, and of one whose host code
passes places of memory of its own, each time another: slots of a workspace. Those are checked.
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
"""Calls of either kind, at most."""
SECONDS = 0.25
"""Of processor time, for each kind; one call is always made."""
LONGER, LONGER_SECONDS = 12_000, 6.0
"""The same for a candidate that keeps what it returns, or takes slots of a workspace."""
LIMIT_S = 30.0
ENOUGH = 32
"""Calls from which on the scope says nothing."""


class ReusedOutputs:
    """Looks for shared memory in calls of `candidate` after its draws, where a protocol wants that."""

    def __init__(self, candidate: WorkerClient, name: protocol.Name, may_run: Callable[[str], bool]) -> None:
        """`may_run`: an operator of torch's."""
        self._candidate, self._wanted = candidate, name in ("full", "reduced")
        self._may_run = may_run
        self.allowed: list[list[str]] = []
        """What the outputs of the last draw share memory with."""
        self._calls = 0

    def check_computing(self, *, slots: bool = False) -> None:
        """Calls that compute; `slots`: each takes another place of a workspace. Raises Refused."""
        if not self._wanted:
            return
        answer = self._candidate.tell(_computing(slots=slots), "running forward")
        self._candidate.check(answer, "run", "a further call of forward failed")
        self._weigh(answer)

    def check_host(self) -> tuple[str, ...]:
        """Calls of which the host code alone runs, and which end what the process can compute; what was left
        out, for the scope. Raises Refused.
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
