"""Time of a call on the GPU, with and without the host's share."""

from collections.abc import Callable

import torch

AHEAD_CYCLES, MOST_AHEAD = 1_000_000, 64_000_000
"""Cycles that the GPU waits before a call, at first (some 0.6 ms) and at most.

The host has to queue the call within this time."""


def queued(call: Callable[[], object], before: Callable[[], object] | None = None) -> float:
    """Return the milliseconds of a call queued while the GPU waits; `before` is queued in front of it.

    If the GPU starts before the host has queued the call, it would idle within the call. The call is then
    repeated behind a longer wait. A call that itself waits for the GPU is timed as it is.
    """
    ahead = AHEAD_CYCLES
    while True:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
        torch.cuda._sleep(ahead)  # type: ignore[no-untyped-call]
        if before is not None:
            before()
        begin.record()
        call()
        end.record()
        in_time = not begin.query()  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
        if in_time or ahead >= MOST_AHEAD:
            span: float = begin.elapsed_time(end)
            return span
        ahead *= 4


def in_a_row(call: Callable[[], object], runs: int) -> float:
    """Return the milliseconds per call of `runs` calls back to back.

    Host time counts wherever the GPU waits for the host.
    """
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    begin.record()
    for _ in range(runs):
        call()
    end.record()
    torch.cuda.synchronize()
    span: float = begin.elapsed_time(end)
    return span / runs
