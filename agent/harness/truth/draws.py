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
    """For each output of the reference, the kinds of tensors with which it shares memory."""
    family: str | None = None
    """Family from which the inputs were derived. None for stated inputs."""
    in_full: "Callable[[], Draw] | None" = None
    """Function that makes this draw with tolerances from every order of summation, for outputs that fail.

    It is set only for a draw whose tolerances come from torch's own order alone. The new tolerances are never
    narrower, but take more time and memory to compute.
    """


def in_sequence(run: Callable[[], Any]) -> tolerance.Sequence:
    """Return a run's results with its sums of few results taken one term after the other."""
    order = OneByOne()
    with OtherOrder(order):
        outputs = run()
    return tolerance.Sequence(outputs, order.lost)


def seconds(device: str) -> float:
    """Return a clock's reading in seconds, of which only differences have a meaning.

    On a GPU, the clock is the wall clock after a synchronize; on a CPU, the processor time of all threads.
    """
    if device != "cuda":
        return time.process_time()
    torch.cuda.synchronize()
    return time.monotonic()


def tree_map(change: Any, value: Any) -> Any:
    """Return `value` with `change` applied to every tensor in it."""
    return tree_map_only(torch.Tensor, change, value)
