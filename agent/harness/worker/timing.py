"""One timed call on a GPU. Standalone: the worker runs a copy of this file.

The L2 cache is overwritten first, and the call is launched while that still runs, as it is from a program
that keeps the GPU busy; what launches themselves cost is measured apart, as processor time of the host. A
call whose launches came too late, since the host was busy or the call waits for the GPU itself, is marked;
the judge gives later ones more time. The time ends with the work on the current stream; or, where the device
is not idle soon after that, when it is. Taken in the process that makes the call: a claim, until
`agent.harness.timing.benchmark` has held another against it.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

L2_FLUSH_BYTES = 256 << 20
FLUSHES = 5
"""Overwrites of the L2 cache before a call: the time in which the host can launch it, about 0.07 ms each."""
LATE_MS = 0.1
"""Longest time in which an idle device is found idle."""


class Sample(NamedTuple):
    """Times of one call."""

    ms: float
    """On the GPU."""
    host_ms: float
    """Processor time of the host until everything was launched."""
    is_late: bool
    """True where the GPU may have waited for the host: `ms` is an upper bound then."""


class Timer:
    """Times calls by CUDA events."""

    def __init__(self) -> None:
        self._flush = torch.empty(L2_FLUSH_BYTES, dtype=torch.uint8, device="cuda")
        self._events = [torch.cuda.Event(enable_timing=True) for _ in range(3)]  # type: ignore[no-untyped-call]

    def timed(self, call: Callable[[], Any], flushes: int = FLUSHES) -> tuple[Sample, Any]:
        """Return the times of one call behind so many overwrites of the L2 cache, and what it returned."""
        begin, end, idle = self._events
        torch.cuda.synchronize()
        self.flush(flushes)
        with torch.no_grad():
            begin.record()
            since = time.thread_time()
            result = call()
            host_ms = 1000 * (time.thread_time() - since)
            end.record()
            is_late = bool(begin.query())  # type: ignore[no-untyped-call]
            torch.cuda.synchronize()
            idle.record()
        torch.cuda.synchronize()
        own, whole = begin.elapsed_time(end), begin.elapsed_time(idle)
        return Sample(own if whole - own < LATE_MS else whole, host_ms, is_late), result

    def flush(self, times: int = 1) -> None:
        """Overwrite the L2 cache."""
        for _ in range(times):
            self._flush.zero_()


def repeated(call: Callable[[], Any], times: int) -> Any:
    """Return what the last of so many calls returned; they follow each other without a pause."""
    result = None
    with torch.no_grad():
        for _ in range(times):
            result = call()
    torch.cuda.synchronize()
    return result


def slope(call: Callable[[], Any], few: int, many: int) -> float:
    """Return the milliseconds of each call in a row of them, by this process's clock."""
    walls = []
    for times in (few, many):
        torch.cuda.synchronize()
        started = time.perf_counter()
        repeated(call, times)
        walls.append(time.perf_counter() - started)
    return 1000 * (walls[1] - walls[0]) / (many - few)
