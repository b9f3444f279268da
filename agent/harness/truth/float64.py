"""Conversion of tensors and of modules' tensor attributes to float64, for the ground truth."""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
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


class WideCasts(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Mode in which a cast rounds to the dtype that it names and its result stays in float64.

    A reference that casts one operand of a product to bfloat16 has another operand in that dtype. In float64
    the two differ without this mode.
    """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if kwargs.get("dtype") is torch.float32:
            kwargs["dtype"] = torch.float64
        return tree_map_only(torch.Tensor, _widened, func(*args, **kwargs))


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    is_narrow = tensor.is_floating_point() and tensor.dtype is not torch.float64
    return tensor.to(torch.float64) if is_narrow else tensor
