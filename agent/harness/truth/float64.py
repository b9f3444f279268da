"""Conversion of tensors and of modules' tensor attributes to float64, for the ground truth."""

import torch
from torch.utils._pytree import tree_map_only

from agent.harness.worker import memory_guards


def widen_attributes(model: torch.nn.Module) -> None:
    """Convert tensor attributes that are neither parameters nor buffers to float64, unlike `double`."""
    for module in model.modules():
        for name, value in vars(module).items():
            plain = isinstance(value, torch.Tensor) or type(value) in (list, tuple, dict)
            if plain and not name.startswith("_") and memory_guards.leaves(value):
                vars(module)[name] = tree_map_only(torch.Tensor, wide, value)


def wide(tensor: torch.Tensor) -> torch.Tensor:
    """Return a float64 copy, or a plain copy of an integer tensor.

    A model that writes to the copy leaves the original unchanged.
    """
    return tensor.to(torch.float64 if tensor.is_floating_point() else tensor.dtype, copy=True)
