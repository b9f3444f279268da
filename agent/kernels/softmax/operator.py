"""`torch.softmax` on the shipped kernel: operator `kernelwright::softmax_forward`."""

from collections.abc import Sequence
from typing import Any

import torch

from agent.kernels import routing
from agent.kernels.operators import Direction, Gradient, Operator, Tensors, matrix, stream
from agent.kernels.replaying.replayed import replayed
from agent.kernels.small import is_torchs

KERNEL = "softmax"
ENVELOPE = (
    "any rank from 1, any dimension; copied where it is not contiguous",
    "below 2^31 rows",
)
FORWARD = "8q"
BACKWARD = "9q"


@replayed
def softmax(x: torch.Tensor, dim: int, dtype: torch.dtype | None = None) -> torch.Tensor:
    """Compute `torch.softmax` with its arguments and errors.

    Fall back to torch and record why if the kernel does not support the call.
    """
    # Invalid arguments and empty tensors go to torch, which raises its own errors.
    is_right = -x.dim() <= dim < x.dim() and (dtype is None or dtype in routing.DTYPES)
    if not is_right or x.numel() == 0 or is_torchs(KERNEL, x) or not routing.takes(KERNEL, x):
        return torch.softmax(x, dim, dtype=dtype)
    return _OPERATOR(routing.widened(x) if dtype is None else x.to(dtype), dim)


def _launch(x: torch.Tensor, dim: int, statistics: bool = True) -> Tensors:
    x = x.contiguous()
    y = torch.empty_like(x)
    routing.library(KERNEL, x.get_device()).launch(
        "forward", FORWARD,
        x.data_ptr(), y.data_ptr(), *matrix(x, dim), routing.DTYPES[x.dtype], stream(x), x.get_device(),
    )  # fmt: skip
    return (y,)


def _launch_backward(grad: torch.Tensor, y: torch.Tensor, dim: int) -> Tensors:
    grad = grad.contiguous()
    dx = torch.empty_like(y)
    routing.library(KERNEL, y.get_device()).launch(
        "backward", BACKWARD,
        grad.data_ptr(), y.data_ptr(), dx.data_ptr(), *matrix(y, dim), routing.DTYPES[y.dtype], stream(y),
        y.get_device(),
    )  # fmt: skip
    return (dx,)


def _compute(x: torch.Tensor, dim: int, statistics: bool = True) -> Tensors:
    return (torch.softmax(x.contiguous(), dim),)


def _compute_backward(grad: torch.Tensor, y: torch.Tensor, dim: int) -> Tensors:
    product = grad * y
    return ((product - y * product.sum(dim, keepdim=True)).contiguous(),)


def _shapes(x: torch.Tensor, dim: int) -> Tensors:
    return (torch.empty_like(x, memory_format=torch.contiguous_format),)


def _backward_shapes(grad: Any, y: torch.Tensor, dim: int) -> Tensors:
    return (torch.empty_like(y, memory_format=torch.contiguous_format),)


def _saved(inputs: Sequence[Any], results: Tensors) -> Sequence[torch.Tensor | None]:
    return results


def _gradients(
    saved: Sequence[Any], settings: Sequence[Any], needed: Sequence[bool], grad: torch.Tensor
) -> Sequence[Any]:
    return (*_OPERATOR.backward(grad, saved[0], settings[1]), None)


_OPERATOR = Operator(
    KERNEL,
    Direction("(Tensor x, int dim) -> Tensor", cpu=_compute, cuda=_launch, fake=_shapes),
    Direction(
        "(Tensor grad, Tensor y, int dim) -> Tensor",
        cpu=_compute_backward, cuda=_launch_backward, fake=_backward_shapes,
    ),
    Gradient(_saved, _gradients),
)  # fmt: skip
SCHEMAS = _OPERATOR.schemas
