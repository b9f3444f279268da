"""Time of a whole model under torch.compile on its example, which includes the host's time."""

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils import _pytree as pytree

from agent.kernels.clock import in_a_row
from agent.kernels.fusing.fuser import Example, arguments
from agent.kernels.fusing.states import Buffers, Numbers
from agent.kernels.replaced import FORWARD, STEP, CompiledGain

RUNS, WARM, FEWEST, MOST, SECONDS = 3, 3, 5, 100, 4.0
"""Rounds of a timing, each of RUNS calls back to back; WARM rounds come first and do not count.

At least FEWEST rounds are measured, and up to MOST within SECONDS. Rounds take seconds because a host's load
drifts; compiling takes many times as long."""


class Span(NamedTuple):
    """Milliseconds per call of a model on one GPU."""

    gpu: str
    what: str
    """Timed call: a step if the model is in training with trainable parameters, else its forward."""
    ms: float

    def gain(self, after: "Span") -> CompiledGain:
        """Return the gain from the time of this span to that of `after`."""
        return CompiledGain(self.gpu, self.what, self.ms, after.ms)


def span(model: nn.Module, example: Example) -> Span:
    """Return the time of the model as it is, compiled for the example's sizes and called back to back.

    Only a training step is compiled for a model in training, otherwise only the forward, because compiling
    takes nearly all of the time. The example, buffers and random states end as they were. Other functions
    that torch.compile compiled in this process are compiled again at their next call. Raises ValueError if no
    tensor of the example is on a GPU. Errors of the model or of its compilation pass through.
    """
    args, kwargs = arguments(example)
    device = _device(pytree.tree_leaves((args, kwargs)))
    numbers, buffers = Numbers.now((*args, *kwargs.values(), *model.parameters())), Buffers.now(model)
    args, kwargs = pytree.tree_map_only(torch.Tensor, _copied, (args, kwargs))
    compiled = torch.compile(model, dynamic=False)
    wanted = [value for value in model.parameters() if value.requires_grad]
    is_step = model.training and bool(wanted)

    def call() -> None:
        with torch.set_grad_enabled(is_step):
            made = [one for one in pytree.tree_leaves(compiled(*args, **kwargs)) if _has_gradient(one)]
        if made:
            torch.autograd.grad(made, wanted, [torch.ones_like(one) for one in made], allow_unused=True)

    try:
        with torch.cuda.device(device):
            return Span(torch.cuda.get_device_name(device), STEP if is_step else FORWARD, _median(call))
    finally:
        torch.compiler.reset()  # this model's code would count towards torch.compile's recompile limit
        buffers.set()
        numbers.set()


def _device(leaves: Sequence[Any]) -> torch.device:
    """Return the device of the first tensor on a GPU. Raises ValueError if no tensor is on one."""
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor) and leaf.is_cuda:
            return leaf.device
    raise ValueError("compiled=True times the model on a GPU, and the example has no tensor there")


def _copied(value: torch.Tensor) -> torch.Tensor:
    """Return a copy of the tensor as a new leaf of autograd's graph: a model may write to its inputs."""
    return value.detach().clone().requires_grad_(value.requires_grad)


def _median(call: Callable[[], object]) -> float:
    call()  # compiles
    rounds: list[float] = []
    until = time.monotonic() + SECONDS
    while len(rounds) < WARM + FEWEST or (len(rounds) < WARM + MOST and time.monotonic() < until):
        rounds.append(in_a_row(call, RUNS))
    return median(rounds[WARM:])


def _has_gradient(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad
