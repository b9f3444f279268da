"""Whether outputs of many calls lie in memory of their own: rings of buffers, slabs that wrap.

The draws are too few for a large ring to come round. More calls follow on the inputs of the last draw, whose
outputs are held and never looked at: some that compute, so that forward can read what it likes, then many of
which the host code alone runs, at the price of that. Where an output may lie is what the oracle has allowed
in the last draw.
"""

from typing import Any

from agent.harness.backends import workspace
from agent.harness.messages.commands import to_worker
from agent.harness.task import faults, protocol
from agent.harness.task.faults import Refused
from agent.harness.trial.worker_client import WorkerClient
from agent.harness.worker.worker_commands import Further
from agent.records import Status
from agent.sandbox import ChildFault

COMPUTED, HELD = 64, 128
"""Calls of either kind, at most."""
SECONDS = 0.25
"""Of processor time, for each kind; one call is always made."""
LIMIT_S = 20.0
ENOUGH = 32
"""Calls from which on the scope says nothing."""


class ReusedOutputs:
    """Looks for shared memory in calls of `candidate` after its draws, where a protocol wants that."""

    def __init__(self, candidate: WorkerClient, name: protocol.Name) -> None:
        self._candidate, self._wanted = candidate, name in ("full", "reduced")
        self.allowed: list[list[str]] = []
        """What the outputs of the last draw share memory with."""
        self._calls = 0

    def check_computing(self) -> None:
        """Calls that compute. Raises Refused."""
        if not self._wanted:
            return
        answer = self._candidate.tell(_command(COMPUTED, host_only=False), "running forward")
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
            why = answer["stopped"] or "their memory or time was used up"
        if self._calls >= ENOUGH:
            return ()
        return (f"outputs of more than {self._calls} further calls held at once: {why[:300]}",)

    def _weigh(self, answer: dict[str, Any]) -> None:
        allowed = [kind for kinds in self.allowed for kind in kinds]
        finding = faults.overlapping([answer["shared"]], [allowed])
        if finding is not None:
            raise Refused(Status.REJECTED, "verify", [finding])
        self._calls += answer["calls"]


def _command(times: int, *, host_only: bool) -> dict[str, Any]:
    return to_worker(Further(times, SECONDS, workspace.KEPT_BYTES, host_only))
