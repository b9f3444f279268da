"""The operator in torch's functions: the CPU implementation, and the backward on every device.

The backward recomputes the activation.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F

from agent.kernels.operators import Tensors

FEW = 64
"""Number of groups from which the sparse product is used. A row's gradient is nonzero in one group only."""


class Products(NamedTuple):
    """Products of float32 matrices on one device."""

    linear: Callable[[torch.Tensor, torch.Tensor, torch.Tensor | None], torch.Tensor]
    """Function (a, b, bias) -> a @ b.T + bias."""
    sparse: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor] | None = None
    """Function (a, b, known) -> a @ b for a of mostly zeros; known is one value, not finite if b is not."""


def forward(
    x: torch.Tensor, weight: torch.Tensor, linear_bias: torch.Tensor | None, gamma: torch.Tensor | None,
    beta: torch.Tensor | None, bias: torch.Tensor, groups: int, eps: float,
) -> torch.Tensor:  # fmt: skip
    """Return [1, count, m, 1] for x [m, k], weight [n, k] and bias [1, count, 1, 1]."""
    z = F.group_norm(F.linear(x, weight, linear_bias), groups, gamma, beta, eps)
    return torch.min(z, dim=1, keepdim=True).values + bias


def backward(
    products: Products, grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor,
    linear_bias: torch.Tensor | None, gamma: torch.Tensor | None, beta: torch.Tensor | None, groups: int,
    eps: float, wanted: Sequence[bool],
) -> Tensors:  # fmt: skip
    """Return the gradients of x, weight, linear_bias, gamma, beta and bias; an unwanted gradient is empty."""
    y = products.linear(x, weight, linear_bias)
    sizes = (*y.shape, 1, groups)
    z, mean, rstd = torch.ops.aten.native_group_norm(y, gamma, beta, *sizes, eps)
    of_row = grad.sum((0, 1, 3))
    lowest = torch.min(z, dim=1, keepdim=True).indices
    dz = torch.zeros_like(z).scatter_(1, lowest, of_row[:, None])
    dgamma = None
    if any(wanted[:4]):
        mask = [True, gamma is not None, False]
        dy, dgamma, _ = torch.ops.aten.native_group_norm_backward(dz, y, mean, rstd, gamma, *sizes, mask)

    def multiplied(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        if products.sparse is not None and groups >= FEW:
            return products.sparse(a, b, mean.sum())  # not finite if any of x or weight is not
        return products.linear(a.contiguous(), b.t().contiguous(), None)

    made: list[torch.Tensor | None] = [
        multiplied(dy, weight) if wanted[0] else None,
        multiplied(dy.t(), x) if wanted[1] else None,
        dy.sum(0) if wanted[2] else None,
        dgamma if wanted[3] else None,
        dz.sum(0) if wanted[4] else None,
        grad.sum((0, 2, 3)).view(1, -1, 1, 1) if wanted[5] else None,
    ]
    return tuple(x.new_empty(0) if value is None else value.contiguous() for value in made)
