"""Tensors and what modules hold in float64, for the truth."""

import torch
from torch.utils._pytree import tree_map_only

from agent.harness.worker import memory_guards


def widen_attributes(model: torch.nn.Module) -> None:
    """In float64 what modules hold as plain attributes, which `double` leaves as it is."""
    for module in model.modules():
        for name, value in vars(module).items():
            plain = isinstance(value, torch.Tensor) or type(value) in (list, tuple, dict)
            if plain and not name.startswith("_") and memory_guards.leaves(value):
                vars(module)[name] = tree_map_only(torch.Tensor, wide, value)


def wide(tensor: torch.Tensor) -> torch.Tensor:
    """In memory of its own, integers too: a model that writes to what it is given writes to nothing else."""
    return tensor.to(torch.float64 if tensor.is_floating_point() else tensor.dtype, copy=True)
