"""When named functions began and how long they took, as lines on standard output. Standalone: the candidate's
process gets a copy of this file.

A line is `timeline WHAT BEGUN SECONDS`, BEGUN by the machine's one monotonic clock, so that what several
processes say can be put in order. Work on the GPU is waited for before the clock is read.
"""

import functools
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

MARK = "timeline"
LEAST_S = 0.001


def watch(owner: Any, *names: str) -> None:
    """From now on these functions of a module or class say what they took, if that is a millisecond."""
    for name in names:
        setattr(owner, name, told(getattr(owner, name), f"{getattr(owner, '__name__', owner)}.{name}"))


def told(function: Callable[..., Any], what: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def timed(*args: Any, **kwargs: Any) -> Any:
        _settle()
        begun = time.monotonic()
        try:
            return function(*args, **kwargs)
        finally:
            _settle()
            seconds = time.monotonic() - begun
            if seconds >= LEAST_S:
                sys.stdout.write(f"{MARK} {what} {begun:.6f} {seconds:.6f}\n")
                sys.stdout.flush()

    return timed


def _settle() -> None:
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
