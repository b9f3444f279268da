"""What a whole model takes of a GPU's time under torch.compile, on its example."""

from collections.abc import Sequence
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils import _pytree as pytree

from agent.kernels.clock import queued
from agent.kernels.fusing.fuser import Example, arguments
from agent.kernels.fusing.states import Numbers, put, taken
from agent.kernels.replaced import Gain

ROUNDS, WARM = 10, 3


class Spans(NamedTuple):
    """Milliseconds of the forward without gradients, and with backward."""

    gpu: str
    forward: float
    step: float

    def gain(self, after: "Spans") -> Gain:
        """From these to those."""
        return Gain(self.gpu, self.forward, after.forward, self.step, after.step)


def spans(model: nn.Module, example: Example) -> Spans:
    """Of the model as it is now, compiled for the example's sizes.

    Buffers and random numbers end as they were. What torch.compile had compiled in this process is compiled
    anew when it is called again. Raises ValueError where the example lies on no GPU, and what the model or
    its compilation raises.
    """
    args, kwargs = arguments(example)
    gpu = _gpu(pytree.tree_leaves((args, kwargs)))
    compiled = torch.compile(model, dynamic=False)
    wanted = [value for value in model.parameters() if value.requires_grad]

    def step() -> None:
        made = [one for one in pytree.tree_leaves(compiled(*args, **kwargs)) if _has_gradient(one)]
        torch.autograd.grad(made, wanted, [torch.ones_like(one) for one in made], allow_unused=True)

    def forward() -> None:
        with torch.no_grad():
            compiled(*args, **kwargs)

    numbers, buffers = Numbers.now((*args, *kwargs.values(), *model.parameters())), taken(model)
    try:
        alone = _median(forward)
        return Spans(gpu, alone, _median(step) if wanted else alone)
    finally:
        torch.compiler.reset()  # this model's code would count among those that are too many
        put(model, buffers)
        numbers.set()


def _gpu(leaves: Sequence[Any]) -> str:
    """Its name. Raises ValueError."""
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor) and leaf.is_cuda:
            return torch.cuda.get_device_name(leaf.device)
    raise ValueError("compiled=True times the model on a GPU, and the example has no tensor there")


def _median(call: Any) -> float:
    return median([queued(call) for _ in range(WARM + ROUNDS)][WARM:])


def _has_gradient(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad
