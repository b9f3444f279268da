"""GPU times of a callable. Standalone: the worker runs a copy of this file.

First version: CUDA events around each call, device-wide synchronisation on both sides, the L2 cache
flushed before. Taken in the process that runs the callable; a second, independent clock is not here yet.
"""

import time
from typing import Any

import torch

L2_FLUSH_BYTES = 256 << 20


def time_calls(call: Any, repeats: int, budget_s: float) -> list[float]:
    """Cold-L2 times of a GPU callable by CUDA events, after three warm-up calls; stops at the budget."""
    flush = torch.empty(L2_FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    times: list[float] = []
    started = time.monotonic()
    with torch.no_grad():
        for _ in range(3):
            call()
        torch.cuda.synchronize()
        while len(times) < repeats and (len(times) < 5 or time.monotonic() - started < budget_s):
            flush.zero_()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            begin.record()
            call()
            torch.cuda.synchronize()
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end))
    return times
