"""What a call takes of the GPU's time, without the host's and with it."""

from collections.abc import Callable

import torch

AHEAD_CYCLES, MOST_AHEAD = 1_000_000, 64_000_000
"""What the GPU waits before a call, some 0.6 ms at first: so long the host may take to have it queued."""


def queued(call: Callable[[], object], before: Callable[[], object] | None = None) -> float:
    """Milliseconds of one call that is queued while the GPU waits; `before` is queued in front of it.

    Where the GPU begins before the host is done it would wait in the midst of the call: then it is called
    again behind a longer wait. A call that waits for the GPU itself is timed as it is.
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
    """Milliseconds of one of so many calls in a row; the host's time counts where the GPU waits for it."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    begin.record()
    for _ in range(runs):
        call()
    end.record()
    torch.cuda.synchronize()
    span: float = begin.elapsed_time(end)
    return span / runs
