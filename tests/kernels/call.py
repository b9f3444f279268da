"""One call of a shipped kernel, with torch's own beside it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

Tensors = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Call:
    """Both functions take the input and then the parameters."""

    ours: Callable[..., torch.Tensor]
    native: Callable[..., torch.Tensor]
    shape: tuple[int, ...]
    parameters: tuple[tuple[int, ...], ...] = ()
    expands: bool = False
    """Its gradient is a broadcast of torch's, without an operator of its own."""

    def tensors(self, dtype: torch.dtype = torch.float64, **options: Any) -> Tensors:
        """The input and the parameters, with gradients."""
        torch.manual_seed(0)
        shapes = (self.shape, *self.parameters)
        return tuple(torch.randn(shape, dtype=dtype, requires_grad=True, **options) for shape in shapes)


def both(values: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """A call's two results as one, so that both have gradients."""
    return torch.cat(values, -1)
