"""Reservation of a GPU's memory among trials.

A trial reserves its estimated need before it uses the GPU, and waits while other trials leave too little.
A reservation is a locked file, which the operating system's kernel unlocks when the process ends.
Reservations are granted in the order of the queue, so that a large trial does not starve.

The estimate may be too small. A trial that runs out of memory is repeated with the whole GPU. Only a second
failure counts.
"""

import fcntl
import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import BinaryIO, TypeVar

from agent.errors import EnvironmentFault, OutOfMemory
from agent.harness.backends.fifo_lock import FifoLock, Taken
from agent.harness.backends.gpu_lock import WAIT_LIMIT_S
from agent.harness.task import progress
from agent.harness.task.job import Announce
from agent.records import TensorSpec, Trace

CONTEXTS_BYTES = 3 << 30
"""Bytes for the contexts and kernels of one trial's processes, and for small tensors."""
ROWS_BYTES = 2 << 30
"""Maximum bytes for timed calls in a row, each with its own copy of the inputs."""
USABLE = 0.96
"""Share of the GPU's memory that trials may hold together."""
SMALL = 1 / 16
"""Share of the GPU's memory up to which a trial counts as small."""
WIDE = 2
"""Bytes of float64 ground truth per byte of float32 data."""
SLICED_BYTES = 4 << 30
"""Bytes of float64 inputs and intermediate results above which ground truth is computed in slices."""
T = TypeVar("T")


def needed(trace: Trace) -> int:
    """Return the estimated peak in bytes of a trial at the sizes of `trace`, all its processes together.

    The oracle holds inputs, two float32 results, the ground truth and intermediate results. It holds the
    parameters as constructed, in float32 and in float64. Memory shared by oracle and worker holds the inputs
    once, outputs and parameters twice. The worker holds its parameters and three sets of outputs.
    """
    inputs = sum(spec.bytes for spec in trace.inputs if isinstance(spec, TensorSpec))
    outputs = sum(spec.bytes for spec in trace.outputs)
    state = sum(spec.bytes for spec in trace.state)
    between = _intermediate(trace)
    wide = min(WIDE * (inputs + between), max(SLICED_BYTES, 2 * WIDE * between // max(_batch(trace), 1)))
    oracle = inputs + (2 + WIDE) * outputs + (2 + WIDE) * state + max(between, wide)
    shared = inputs + 2 * outputs + 2 * state
    candidate = state + 3 * outputs + between
    return CONTEXTS_BYTES + min(ROWS_BYTES, 8 * (inputs + outputs)) + oracle + shared + candidate


def _intermediate(trace: Trace) -> int:
    """Return twice the bytes of the largest operator's results, as its operands need memory as well."""
    return 2 * max((sum(spec.bytes for spec in op.outputs) for op in trace.operations), default=0)


def _batch(trace: Trace) -> int:
    """Return the first dimension's length if all outputs share it, or 1 if they differ."""
    firsts = {spec.shape[0] if spec.shape else 1 for spec in trace.outputs}
    return firsts.pop() if len(firsts) == 1 else 1


class Reservations:
    """Memory reservations on one GPU by all processes that share `place`, the folder of its queue."""

    def __init__(
        self, place: Path, total_bytes: int, announce: Announce, begun_ns: int | None = None
    ) -> None:
        self._folder = place / "memory"
        self._total = int(USABLE * total_bytes)
        self._announce = progress.as_progress(announce)
        self._queue = FifoLock(place / "memory-queue", begun_ns)

    @contextmanager
    def held(self, wanted: int | None) -> Iterator[None]:
        """Wait until enough memory is unreserved, then reserve `wanted` bytes; None means the whole GPU.

        Raises EnvironmentFault if one holder keeps the memory longer than the wait limit.
        """
        path, file = self._reserved(self._total if wanted is None else min(wanted, self._total))
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
            file.close()

    def others(self) -> int:
        """Return the bytes that all processes have reserved now."""
        return sum(size for _, size in self._living())

    def _reserved(self, wanted: int) -> tuple[Path, BinaryIO]:
        before = self._announce.now
        try:
            self._queue.acquire(lambda ahead: self._announce("waiting for memory of the GPU"), WAIT_LIMIT_S)
            try:
                self._wait(wanted)
                return self._made(wanted)
            finally:
                self._queue.release()
        except Taken as taken:
            raise EnvironmentFault(
                f"the memory of the GPU is in use: {taken} has held it for {WAIT_LIMIT_S:.0f} s "
                f"({self._folder}); stop it, or wait for it"
            ) from None
        except OSError as error:
            raise EnvironmentFault(f"cannot reserve memory in {self._folder}: {error}") from error
        finally:
            if before and self._announce.now != before:
                self._announce(before)

    def _wait(self, wanted: int) -> None:
        until = time.monotonic() + WAIT_LIMIT_S
        while (others := self.others()) and others + wanted > self._total:
            self._announce("waiting for memory of the GPU")
            if time.monotonic() > until:
                raise Taken(None)
            time.sleep(0.05)

    def _made(self, wanted: int) -> tuple[Path, BinaryIO]:
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{os.getpid()}-{secrets.token_hex(4)}-{wanted}"
        unseen = self._folder / f"{path.name}.part"
        file = unseen.open("wb", buffering=0)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        unseen.replace(path)
        return path, file

    def _living(self) -> Iterator[tuple[Path, int]]:
        for path in sorted(self._folder.glob("*-*-*")) if self._folder.is_dir() else []:
            size = path.name.rpartition("-")[2]
            if not size.isdigit():
                continue
            try:
                with path.open("rb") as file:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                yield path, int(size)
            except FileNotFoundError:
                continue
            else:
                path.unlink(missing_ok=True)


class Room:
    """GPU memory of one trial, reserved once its candidate is built.

    Nothing is reserved if `place` is None or the driver does not report the GPU's memory.
    """

    def __init__(
        self, place: Path | None, trace: Trace, announce: Announce, begun_ns: int | None = None
    ) -> None:
        total = total_bytes() if place is not None else None
        self._reservations: Reservations | None = None
        self._wanted: int | None = None
        self.is_small = True
        """True if the trial needs so little memory that it may use the GPU before its reservation."""
        if place is not None and total is not None:
            self._reservations = Reservations(place, total, announce, begun_ns)
            needs = needed(trace)
            self._wanted = needs if needs < USABLE * total else None
            self.is_small = needs < SMALL * total

    @property
    def is_whole(self) -> bool:
        """Return True if the trial asks for all of the GPU's memory."""
        return self._wanted is None

    def held(self) -> AbstractContextManager[None]:
        """Return the reservation as a context; entering it waits until enough memory is unreserved."""
        return self._reservations.held(self._wanted) if self._reservations else nullcontext()

    def take_whole(self) -> None:
        """Ask for all of the GPU's memory from now on."""
        self._wanted, self.is_small = None, False


def tried(room: Room, judge: Callable[[], T], announce: Announce) -> T:
    """Return the result of `judge`, called again with the whole GPU if memory runs out beside other trials.

    Raises OutOfMemory if the whole GPU is too little.
    """
    try:
        return judge()
    except OutOfMemory:
        if room.is_whole:
            raise
    room.take_whole()
    announce("judging once more with the whole GPU: its memory was too little beside other trials")
    return judge()


@cache
def total_bytes() -> int | None:
    """Return the memory of this process's first GPU in bytes, or None if the driver does not report it."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    command = [tool, "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        return int(answer.stdout.splitlines()[0]) << 20
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError):
        return None
