"""Lock of a GPU: timing needs the GPU alone, everything else shares it.

`exclusive` is for timing, and for anything that a second process on the GPU would falsify. `shared` is for
draws, ground truth, sanitizers and the search for causes. A shared section covers one draw or one call, so an
exclusive section begins within seconds. No shared section begins while an exclusive one waits or runs.

Exclusive sections are granted in the order in which the looks at candidates began. A second look counts as
begun `SECOND_LOOK_YIELDS_S` later, so it yields to first looks without waiting for all of them.

The queue lies in the user's cache, with one folder per GPU. A process that ends leaves its place at once. The
queue does not see evaluations with another cache or in another container. Sections longer than `LOGGED_S`
are written to `holds.jsonl` beside the queue, for load tests.
"""

import fcntl
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import BinaryIO, Literal

from agent.errors import EnvironmentFault
from agent.harness.backends.fifo_lock import FifoLock, Taken
from agent.harness.task import progress
from agent.harness.task.job import Announce

WAIT_LIMIT_S = 3600.0
"""Maximum seconds to wait for one holder; a waiter behind several holders waits that long for each."""
SECOND_LOOK_YIELDS_S = 20.0
"""Seconds that a first look may begin after a second look and still precede it in the queue."""
POLL_S = 0.005
LOGGED_S = 0.05
"""Minimum seconds of a section that is logged."""
LOG_BYTES = 1 << 20
"""Size in bytes above which the log starts anew."""
Mode = Literal["shared", "exclusive"]


class GpuLock:
    """Lock of one GPU, whose queue lies in the folder `place`. If `place` is None, nobody waits.

    A `shared` section inside an `exclusive` one needs no lock of its own. Apart from that, the lock is not
    reentrant. One instance belongs to one thread, and `another` makes an instance for another thread.
    """

    def __init__(
        self, place: Path | None, announce: Announce, limit_s: float = WAIT_LIMIT_S,
        begun_ns: int | None = None,
    ) -> None:  # fmt: skip
        """Make the lock. `begun_ns` is the look's start, as in `Job`; None means each section's own."""
        self._place, self._begun_ns = place, begun_ns
        self._announce, self._limit_s = progress.as_progress(announce), limit_s
        self._queue = FifoLock(place, begun_ns) if place else None
        self._users: BinaryIO | None = None
        self._mode: Mode | None = None
        self._since = 0.0
        self._cancelled: Callable[[], bool] = lambda: False

    def another(self, cancelled: Callable[[], bool] = lambda: False) -> "GpuLock":
        """Return an instance for another thread, for this GPU and look, without progress messages.

        Once `cancelled` returns True, the instance's shared sections begin without waiting for the lock.
        """
        made = GpuLock(self._place, lambda what: None, self._limit_s, self._begun_ns)
        made._cancelled = cancelled
        return made

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the GPU alone. Raises EnvironmentFault after waiting too long."""
        with self._held("exclusive"):
            yield

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Use the GPU beside other shared sections. Raises EnvironmentFault after waiting too long."""
        if self._mode is not None:
            yield
            return
        with self._held("shared"):
            yield

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Release the GPU, if held, and queue for it again at the end of the context."""
        mode = self._mode
        self._release()
        try:
            yield
        except GeneratorExit:
            mode = None  # the generator was abandoned, so nobody needs the GPU again
            raise
        finally:
            if mode is not None:
                self._take(mode)

    @contextmanager
    def _held(self, mode: Mode) -> Iterator[None]:
        self._take(mode)
        try:
            yield
        finally:
            self._release()

    def _take(self, mode: Mode) -> None:
        if self._place is None or self._queue is None:
            return
        before = self._announce.now
        try:
            if mode == "exclusive":
                self._queue.acquire(self._tell, self._limit_s)
                self._users = self._entered(fcntl.LOCK_EX)
            else:
                self._users = self._entered(fcntl.LOCK_SH)
        except Taken as taken:
            self._release()
            raise EnvironmentFault(
                f"the GPU is in use: {taken} has held the GPU lock for {self._limit_s:.0f} s "
                f"({self._place}); stop it, or wait for it"
            ) from None
        except OSError as error:
            self._release()
            raise EnvironmentFault(f"cannot lock {self._place}: {error}") from error
        except BaseException:
            self._release()
            raise
        if before and self._announce.now != before:
            self._announce(before)
        self._mode, self._since = mode, time.monotonic()

    def _entered(self, operation: int) -> BinaryIO:
        """Wait for the flock on the file `users` and return the file. Raises Taken and OSError."""
        assert self._place is not None
        self._place.mkdir(parents=True, exist_ok=True)
        alone = operation == fcntl.LOCK_EX
        until, told = time.monotonic() + self._limit_s, False
        file = (self._place / "users").open("ab", buffering=0)
        try:
            while not self._cancelled():
                # New shared sections wait for an exclusive holder, which would otherwise never be alone.
                if alone or not _is_locked(self._place / "turn"):
                    try:
                        fcntl.flock(file, operation | fcntl.LOCK_NB)
                    except BlockingIOError:
                        pass
                    else:
                        return file
                if not told:
                    self._tell(0 if alone else 1)
                    told = True
                if time.monotonic() > until:
                    raise Taken(None)
                time.sleep(POLL_S)
            return file
        except BaseException:
            file.close()
            raise

    def _release(self) -> None:
        """Release the GPU. Safe to repeat."""
        mode, self._mode = self._mode, None
        users, self._users = self._users, None
        if users is not None:
            users.close()
        if self._queue is not None:
            self._queue.release()
        if mode is not None:
            self._log(mode, time.monotonic() - self._since)

    def _log(self, mode: Mode, seconds: float) -> None:
        if self._place is None or seconds < LOGGED_S:
            return
        file = self._place / "holds.jsonl"
        hold = {
            "mode": mode,
            "seconds": round(seconds, 3),
            "begun": round(self._since, 3),
            "pid": os.getpid(),
        }
        try:
            fresh = not file.exists() or file.stat().st_size > LOG_BYTES
            with file.open("w" if fresh else "a", encoding="utf-8") as log:
                log.write(json.dumps(hold) + "\n")
        except OSError:
            return  # the log serves load tests only and must not cost a verdict

    def _tell(self, ahead: int) -> None:
        self._announce(f"waiting for the GPU: {ahead} before this one" if ahead else "waiting for the GPU")


def _is_locked(file: Path) -> bool:
    """Return True while another process or instance holds an exclusive flock on this file."""
    try:
        with file.open("rb") as opened:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


def place_of(cache: Path, environment: Mapping[str, str]) -> Path:
    """Return the queue folder of the GPU that a process with this environment computes on."""
    return cache / "gpus" / f"{identity(listed(), environment.get('CUDA_VISIBLE_DEVICES'))}.queue"


def of_gpu(
    cache: Path, environment: Mapping[str, str], announce: Announce, begun_ns: int | None = None
) -> GpuLock:
    """Return the lock of the GPU that a process with this environment computes on."""
    return GpuLock(place_of(cache, environment), announce, begun_ns=begun_ns)


def yielding(begun_ns: int) -> int:
    """Return the start time in ns by which a second look that began at `begun_ns` is queued."""
    return begun_ns + int(SECOND_LOOK_YIELDS_S * 1e9)


def identity(listed: list[str], visible: str | None) -> str:
    """Return the UUID of the first visible GPU.

    `listed` holds all UUIDs in driver order; `visible` is the value of CUDA_VISIBLE_DEVICES.
    """
    first = (visible or "").split(",")[0].strip()
    if first.startswith(("GPU-", "MIG-")):
        return next((uuid for uuid in listed if uuid.startswith(first)), first)
    number = int(first) if first.isdigit() else 0
    return listed[number] if number < len(listed) else "unknown"


@cache
def listed() -> list[str]:
    """Return the UUIDs of this machine's GPUs, or an empty list if the driver does not answer."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    command = [tool, "--query-gpu=uuid", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [row.strip() for row in answer.stdout.splitlines()] if answer.returncode == 0 else []
