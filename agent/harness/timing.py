"""One timed call on a GPU. Standalone: the worker runs a copy of this file.

The L2 cache is overwritten first and the device idle when the clock starts; it stops when the whole device is
idle again, whatever stream the work ran on. So the time holds all that a caller waits for, launches included.
Taken in the process that makes the call: a claim, until `agent.harness.clock` has held another against it.
"""

from collections.abc import Callable
from typing import Any

import torch

L2_FLUSH_BYTES = 256 << 20


class Timer:
    """Times calls by CUDA events."""

    def __init__(self) -> None:
        self._flush = torch.empty(L2_FLUSH_BYTES, dtype=torch.uint8, device="cuda")
        self._begin, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]

    def timed(self, call: Callable[[], Any]) -> tuple[float, Any]:
        """Milliseconds of one call, and what it returned."""
        self._flush.zero_()
        torch.cuda.synchronize()
        with torch.no_grad():
            self._begin.record()
            result = call()
            torch.cuda.synchronize()
            self._end.record()
        torch.cuda.synchronize()
        return self._begin.elapsed_time(self._end), result


def repeated(call: Callable[[], Any], times: int) -> Any:
    """What the last of so many calls returned; they follow each other without a pause."""
    result = None
    with torch.no_grad():
        for _ in range(times):
            result = call()
    torch.cuda.synchronize()
    return result
