"""Draws from a reference: inputs with their expected outputs, and helpers to make them."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_map_only

from agent.harness.truth import tolerance
from agent.harness.truth.summation import OneByOne
from agent.harness.truth.summation_order import OtherOrder


class Draw(NamedTuple):
    inputs: list[Any]
    expected: tolerance.Expected
    overlaps: list[list[str]]
    """Kinds of tensors, for each output, with which the reference's own output shares memory."""
    family: str | None = None
    """Family from which the inputs were derived. None for stated inputs."""
    in_full: "Callable[[], Draw] | None" = None
    """Maker of the same draw with limits from every order of summation, for outputs outside these limits.

    Set only for a draw whose limits come from torch's own order alone. The new limits are never narrower.
    Making them takes the time and memory that were saved.
    """


def in_sequence(run: Callable[[], Any]) -> tolerance.Sequence:
    """Return a run's results with each of few sums taken value after value."""
    order = OneByOne()
    with OtherOrder(order):
        outputs = run()
    return tolerance.Sequence(outputs, order.lost)


def seconds(device: str) -> float:
    """Return a time in seconds, for differences only.

    On a GPU the time is wall-clock time after the GPU is done, on a CPU the processor time of all threads.
    """
    if device != "cuda":
        return time.process_time()
    torch.cuda.synchronize()
    return time.monotonic()


def tree_map(change: Any, value: Any) -> Any:
    """Return `value` with `change` applied to every tensor in it."""
    return tree_map_only(torch.Tensor, change, value)
