"""One timed call on a GPU. Standalone: the worker runs a copy of this file.

The L2 cache is overwritten first, and the call is launched while that still runs, as it is from a program
that keeps the GPU busy; what launches themselves cost shows in calls in a row. The time ends with the work on
the current stream; or, where the device is not idle soon after that, when it is. Taken in the process that
makes the call: a claim, until `agent.harness.timing.benchmark` has held another against it.
"""

import time
from collections.abc import Callable
from typing import Any

import torch

L2_FLUSH_BYTES = 256 << 20
FLUSHES = 5
"""As many as take longer than a process that has just woken up takes to launch its kernels."""
LATE_MS = 0.1
"""What it takes at most to find an idle device idle."""


class Timer:
    """Times calls by CUDA events."""

    def __init__(self) -> None:
        self._flush = torch.empty(L2_FLUSH_BYTES, dtype=torch.uint8, device="cuda")
        self._events = [torch.cuda.Event(enable_timing=True) for _ in range(3)]  # type: ignore[no-untyped-call]

    def timed(self, call: Callable[[], Any]) -> tuple[float, Any]:
        """Milliseconds of one call, and what it returned."""
        begin, end, idle = self._events
        torch.cuda.synchronize()
        self.flush(FLUSHES)
        with torch.no_grad():
            begin.record()
            result = call()
            end.record()
            torch.cuda.synchronize()
            idle.record()
        torch.cuda.synchronize()
        own, whole = begin.elapsed_time(end), begin.elapsed_time(idle)
        return (own if whole - own < LATE_MS else whole), result

    def flush(self, times: int = 1) -> None:
        """Overwrites the L2 cache."""
        for _ in range(times):
            self._flush.zero_()


def repeated(call: Callable[[], Any], times: int) -> Any:
    """What the last of so many calls returned; they follow each other without a pause."""
    result = None
    with torch.no_grad():
        for _ in range(times):
            result = call()
    torch.cuda.synchronize()
    return result


def slope(call: Callable[[], Any], few: int, many: int) -> float:
    """Milliseconds of each call in a row of them, by this process's clock."""
    walls = []
    for times in (few, many):
        torch.cuda.synchronize()
        started = time.perf_counter()
        repeated(call, times)
        walls.append(time.perf_counter() - started)
    return 1000 * (walls[1] - walls[0]) / (many - few)
