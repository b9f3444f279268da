"""Call of the first instance while a second is alive, which shows if it uses its own parameters.

Constants, packed weights and workspaces that are kept in global variables instead of the instance fail the
check, as the second instance has overwritten them.
"""

from collections.abc import Callable
from typing import Any, Protocol

from agent.harness.messages.commands import to_worker
from agent.harness.worker import worker_commands

MOST_BYTES = 1 << 30
"""Maximum bytes of parameters for which two instances are kept in memory."""


class Process(Protocol):
    """Part of `trial.worker_client.WorkerClient` that the check needs."""

    def tell(self, command: dict[str, Any], doing: str) -> dict[str, Any]: ...

    def check(self, answer: dict[str, Any], stage: Any, doing: str) -> None: ...


def fits(drawn: dict[str, Any]) -> bool:
    """Return True if the parameters are small enough to keep two instances in memory."""
    sizes: list[int] = drawn.get("state_bytes", [])
    return sum(sizes) <= MOST_BYTES


def call_former(process: Process, call: Callable[[], None]) -> None:
    """Judge one call of the previous instance, then release the instance. Raises Refused."""
    doing = "calling the first instance after the second"
    _exchange(process, doing, ends=False)
    call()
    _exchange(process, "releasing the first instance", ends=True)


def _exchange(process: Process, doing: str, *, ends: bool) -> None:
    answer = process.tell(to_worker(worker_commands.Former(ends)), doing)
    process.check(answer, "run", f"{doing} failed")
