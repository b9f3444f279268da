"""What is drawn of a reference, inputs and what they must give, and what making it takes."""

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
    """For each output the kinds of tensors that the reference's own output shares memory with."""
    family: str | None = None
    """How the inputs were derived; None for stated ones."""
    in_full: "Callable[[], Draw] | None" = None
    """Of a draw with the limits of torch's own order alone: the same draw with those of every order, which
    are never narrower, for an output outside. It takes the time and memory that were saved."""


def in_sequence(run: Callable[[], Any]) -> tolerance.Sequence:
    """What a run gives when each of few sums is taken value after value."""
    order = OneByOne()
    with OtherOrder(order):
        outputs = run()
    return tolerance.Sequence(outputs, order.lost)


def seconds(device: str) -> float:
    """Of the clock once a GPU is done, and of all processors together on a CPU; for differences."""
    if device != "cuda":
        return time.process_time()
    torch.cuda.synchronize()
    return time.monotonic()


def tree_map(change: Any, value: Any) -> Any:
    """`value` with `change` applied to every tensor in it."""
    return tree_map_only(torch.Tensor, change, value)
