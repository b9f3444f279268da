"""Whose turn it is on a GPU: two evaluations at once would time each other.

A queue for each GPU in the user's cache. Whose look at a candidate began first comes first, however many
turns it takes: second looks come to their end beside other runs' first ones. The turn is taken for what
an evaluation does on the GPU and never for what it builds, so that the next candidate is compiled meanwhile.
The system frees it, and every place in the queue, with the process that has it. Evaluations with another
cache, or in another container, are not seen.
"""

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from agent.errors import EnvironmentFault
from agent.harness.backends.fifo_lock import FifoLock, Taken
from agent.harness.task.job import Announce

WAIT_LIMIT_S = 3600.0
"""Of one evaluation that holds the GPU; whoever waits for several waits as long for each."""


class GpuLock:
    """The right to use what `place` stands for; without a place it is everybody's."""

    def __init__(
        self, place: Path | None, announce: Announce, limit_s: float = WAIT_LIMIT_S,
        begun_ns: int | None = None,
    ) -> None:  # fmt: skip
        """`begun_ns`: of the look that asks, as in a `Job`; None: each turn stands for itself."""
        self._lock = FifoLock(place, begun_ns) if place else None
        self._announce, self._limit_s = announce, limit_s

    @contextmanager
    def held(self) -> Iterator[None]:
        """Waits for the turn. Raises EnvironmentFault where it does not come."""
        self._take()
        try:
            yield
        finally:
            if self._lock is not None:
                self._lock.release()

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Lets others have it meanwhile, where it is held; it comes back in the order of the queue."""
        was_held = self._lock is not None and self._lock.held
        if was_held and self._lock is not None:
            self._lock.release()
        try:
            yield
        except GeneratorExit:
            was_held = False  # given up with what it was for, and not waited for again
            raise
        finally:
            if was_held:
                self._take()

    @contextmanager
    def if_free(self) -> Iterator[bool]:
        """A further turn beside this one's, for work ahead, where nobody has one or waits; whether it is so.

        May be asked for in another thread.
        """
        own = FifoLock(self._lock.folder) if self._lock else None
        try:
            free = own is None or own.attempt()
        except OSError:
            free = False  # told where the turn itself is taken
        try:
            yield free
        finally:
            if own is not None:
                own.release()

    def _take(self) -> None:
        if self._lock is None:
            return
        try:
            self._lock.acquire(self._tell, self._limit_s)
        except Taken as taken:
            raise EnvironmentFault(
                f"the GPU is in use: {taken} has held the GPU lock for {self._limit_s:.0f} s "
                f"({self._lock.folder}); stop it, or wait for it"
            ) from None
        except OSError as error:
            raise EnvironmentFault(f"cannot lock {self._lock.folder}: {error}") from error

    def _tell(self, ahead: int) -> None:
        self._announce(f"waiting for the GPU: {ahead} before this one")


def of_gpu(
    cache: Path, environment: Mapping[str, str], announce: Announce, begun_ns: int | None = None
) -> GpuLock:
    """For the GPU that a process with this environment computes on."""
    name = identity(listed(), environment.get("CUDA_VISIBLE_DEVICES"))
    return GpuLock(cache / "gpus" / f"{name}.queue", announce, begun_ns=begun_ns)


def identity(listed: list[str], visible: str | None) -> str:
    """UUID of the first GPU of those listed in the driver's order that `visible` leaves."""
    first = (visible or "").split(",")[0].strip()
    if first.startswith(("GPU-", "MIG-")):
        return next((uuid for uuid in listed if uuid.startswith(first)), first)
    number = int(first) if first.isdigit() else 0
    return listed[number] if number < len(listed) else "unknown"


@cache
def listed() -> list[str]:
    """UUIDs of this machine's GPUs; none where the driver does not say."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    command = [tool, "--query-gpu=uuid", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [row.strip() for row in answer.stdout.splitlines()] if answer.returncode == 0 else []
