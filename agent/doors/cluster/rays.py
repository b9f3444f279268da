"""Interface to Ray: the machines of a cluster, and actors on them. No other module imports Ray.

Ray only passes texts on; the text of a job goes to the one judge that it is meant for.
"""

import math
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Literal

from agent.doors.cluster.keeper import COMMAND, Keeper
from agent.doors.cluster.places import Lost, Machine, Place
from agent.errors import EnvironmentFault, Interrupted, UsageError

AUTO = "auto"
LOOK_S = 0.25
CONNECT_S = 10.0


class Rays:
    """Connection to one Ray cluster, through which actors are started."""

    def __init__(self, address: str, command: Sequence[str] = COMMAND) -> None:
        """Connect to `address`, HOST:PORT of the head or `auto`. Raises UsageError, EnvironmentFault."""
        _require_reachable(address)
        import ray

        self._ray, self._command = ray, tuple(command)
        try:
            ray.init(
                address=address, log_to_driver=False, logging_level="ERROR", include_dashboard=False,
                _node_ip_address=_own_address(address),
            )  # fmt: skip
        except (ConnectionError, RuntimeError, ValueError) as error:
            said = str(error).strip().partition("\n")[0]
            raise EnvironmentFault(f"--cluster {address}: {said or type(error).__name__}") from error

    def machines(self) -> tuple[Machine, ...]:
        """Return the machines that are alive. Raises Lost."""
        found = []
        try:
            nodes = self._ray.nodes()
        except (self._ray.exceptions.RayError, RuntimeError) as error:
            raise Lost(str(error)) from error
        for node in nodes:
            if node["Alive"]:
                has = node["Resources"]
                name = f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})"
                processors, gpus = (math.floor(has.get(kind, 0)) for kind in ("CPU", "GPU"))
                found.append(Machine(node["NodeID"], name, processors, gpus))
        return tuple(found)

    def keeper(self, place: Place, plan: str) -> "Actor":
        """Request an actor at this place, which starts once its resources are free."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        made = self._ray.remote(Keeper).options(
            num_cpus=place.processors, num_gpus=place.gpus, max_restarts=0, max_task_retries=0,
            max_concurrency=place.slots + 1,
            scheduling_strategy=NodeAffinitySchedulingStrategy(place.machine.id, soft=False),
        )  # fmt: skip
        return Actor(self._ray, made.remote(plan, place.slots, self._command))

    def close(self) -> None:
        """Disconnect, which ends every actor of this driver."""
        self._ray.shutdown()


class Actor:
    """Handle of a Keeper that runs as a Ray actor on a machine of the cluster."""

    def __init__(self, ray: Any, handle: Any) -> None:
        self._ray, self._handle = ray, handle

    def ask(self, method: Literal["hello", "judge"], cancelled: Callable[[], bool], *given: str) -> str:
        """Call the keeper. Raises Lost if it has ended or is unreachable, Interrupted once cancelled."""
        exceptions = self._ray.exceptions
        try:
            asked = getattr(self._handle, method).remote(*given)
            while not self._ray.wait([asked], timeout=LOOK_S)[0]:
                if cancelled():
                    raise Interrupted("cancelled before there was a verdict")
            return str(self._ray.get(asked))
        except exceptions.RayError as error:
            said = str(error).strip().partition("\n")[0]
            raise Lost(f"{type(error).__name__}: {said}"[:300]) from error

    def end(self) -> None:
        with suppress(self._ray.exceptions.RayError, ValueError):
            self._ray.kill(self._handle)


def _require_reachable(address: str) -> None:
    """Check the address, as Ray itself waits a minute for it. Raises UsageError, EnvironmentFault."""
    if address == AUTO:
        return
    host, _, port = address.rpartition(":")
    if not host or "/" in address or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise UsageError(f"--cluster {address!r}: give HOST:PORT of the cluster's head, or auto")
    try:
        socket.create_connection((host, int(port)), CONNECT_S).close()
    except OSError as error:
        reason = error.strerror or str(error)
        raise EnvironmentFault(f"--cluster {address}: nobody answers there: {reason}") from error


def _own_address(address: str) -> str | None:
    """Return this machine's address if the cluster uses the loopback; Ray finds any other by itself."""
    host = address.rpartition(":")[0]
    return host if host.startswith("127.") else None
