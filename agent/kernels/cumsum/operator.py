"""`torch.cumsum`, also from the end, and its operator `kernelwright::cumsum_forward`."""

from collections.abc import Sequence
from typing import Any

import torch

from agent.kernels import routing
from agent.kernels.operators import Direction, Gradient, Operator, Tensors, address, matrix, stream
from agent.kernels.replaying.replayed import replayed

KERNEL = "cumsum"
ENVELOPE = (
    "any rank from 1, any dimension; copied where it is not contiguous",
    "from the front or from the end; sums in float32",
    "below 2^31 blocks: rows, or groups of columns",
)
FORWARD = "10q"


@replayed
def cumsum(
    x: torch.Tensor, dim: int, dtype: torch.dtype | None = None, *, reverse: bool = False
) -> torch.Tensor:
    """Return torch.cumsum; with `reverse` each sum runs from the end.

    Falls back to torch and records why if the kernel does not support the call. Raises whatever torch raises.
    """
    is_right = -x.dim() <= dim < x.dim() and (dtype is None or dtype in routing.DTYPES)
    if not is_right or x.numel() == 0 or not routing.takes(KERNEL, x):
        return in_torch(x, dim, dtype, reverse)
    return _OPERATOR(routing.widened(x) if dtype is None else x.to(dtype), dim, reverse)


def in_torch(x: torch.Tensor, dim: int, dtype: torch.dtype | None, reverse: bool) -> torch.Tensor:
    """Return the cumulative sums in torch's operators."""
    if not reverse:
        return torch.cumsum(x, dim, dtype=dtype)
    return torch.cumsum(x.flip(dim), dim, dtype=dtype).flip(dim)


def _launch(x: torch.Tensor, dim: int, reverse: bool, statistics: bool = True) -> Tensors:
    x = x.contiguous()
    y = torch.empty_like(x)
    device = x.device.index
    values = (*matrix(x, dim), reverse, routing.DTYPES[x.dtype], stream(x), device)
    library = routing.library(KERNEL, device)
    needed = library.ask("forward_workspace", FORWARD, x.data_ptr(), y.data_ptr(), 0, *values)
    workspace = x.new_empty(needed, dtype=torch.uint8) if needed else None
    library.launch("forward", FORWARD, x.data_ptr(), y.data_ptr(), address(workspace), *values)
    return (y,)


def _launch_backward(grad: torch.Tensor, dim: int, reverse: bool) -> Tensors:
    return _launch(grad, dim, not reverse)


def _compute(x: torch.Tensor, dim: int, reverse: bool, statistics: bool = True) -> Tensors:
    wide = x if x.dtype == torch.float64 else x.float()
    return (in_torch(wide, dim, None, reverse).to(x.dtype).contiguous(),)


def _compute_backward(grad: torch.Tensor, dim: int, reverse: bool) -> Tensors:
    return _compute(grad, dim, not reverse)


def _shapes(x: torch.Tensor, dim: int, reverse: bool) -> Tensors:
    return (torch.empty_like(x, memory_format=torch.contiguous_format),)


def _saved(inputs: Sequence[Any], results: Tensors) -> Sequence[torch.Tensor | None]:
    return ()


def _gradients(
    saved: Sequence[Any], settings: Sequence[Any], needed: Sequence[bool], grad: torch.Tensor
) -> Sequence[Any]:
    return (*_OPERATOR.backward(grad, *settings[1:]), None, None)


_OPERATOR = Operator(
    KERNEL,
    Direction("(Tensor x, int dim, bool reverse) -> Tensor", cpu=_compute, cuda=_launch, fake=_shapes),
    Direction(
        "(Tensor grad, int dim, bool reverse) -> Tensor",
        cpu=_compute_backward, cuda=_launch_backward, fake=_shapes,
    ),
    Gradient(_saved, _gradients),
)  # fmt: skip
SCHEMAS = _OPERATOR.schemas
