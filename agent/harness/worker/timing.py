"""One timed call on a GPU. Standalone: the worker runs a copy of this file.

The L2 cache is overwritten first, and the call is launched meanwhile, as in a program that keeps the GPU
busy. The cost of the launches is measured separately, as host processor time. A call is marked late if it was
launched too slowly or waited for the GPU; later calls then get more overwrites. The time ends with the work
on the current stream, or when the device is idle if that is much later.

The process that makes the call also measures it. The time is a claim until `agent.harness.timing.benchmark`
has compared it with the judge's clock.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

L2_FLUSH_BYTES = 256 << 20
FLUSHES = 5
"""Number of overwrites of the L2 cache before a call, about 0.07 ms each, during which it is launched."""
LATE_MS = 0.1
"""Maximum milliseconds between the end of a stream's work and an idle device, without work elsewhere."""


class Sample(NamedTuple):
    """Times of one call."""

    ms: float
    """Milliseconds of the call on the GPU."""
    host_ms: float
    """Host processor time in milliseconds until the call returned, with all its kernels launched."""
    is_late: bool
    """True if the GPU may have waited for the host; `ms` is then an upper bound."""


class Timer:
    """Timer of calls by CUDA events."""

    def __init__(self) -> None:
        self._flush = torch.empty(L2_FLUSH_BYTES, dtype=torch.uint8, device="cuda")
        self._events = [torch.cuda.Event(enable_timing=True) for _ in range(3)]  # type: ignore[no-untyped-call]

    def timed(self, call: Callable[[], Any], flushes: int = FLUSHES) -> tuple[Sample, Any]:
        """Return the times of one call after `flushes` overwrites of the L2 cache, and its result."""
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
        """Overwrite the L2 cache `times` times."""
        for _ in range(times):
            self._flush.zero_()


def repeated(call: Callable[[], Any], times: int) -> Any:
    """Return the result of the last of `times` calls, made without a pause."""
    result = None
    with torch.no_grad():
        for _ in range(times):
            result = call()
    torch.cuda.synchronize()
    return result


def slope(call: Callable[[], Any], few: int, many: int) -> float:
    """Return the milliseconds per call from rows of `few` and `many` calls, by this process's clock."""
    walls = []
    for times in (few, many):
        torch.cuda.synchronize()
        started = time.perf_counter()
        repeated(call, times)
        walls.append(time.perf_counter() - started)
    return 1000 * (walls[1] - walls[0]) / (many - few)
