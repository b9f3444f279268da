"""`torch.logsumexp` over one dimension: operator `kernelwright::logsumexp_forward`."""

from collections.abc import Sequence
from typing import Any

import torch

from agent.kernels import routing
from agent.kernels.operators import Direction, Gradient, Operator, Tensors, matrix, stream
from agent.kernels.replaying.replayed import replayed

KERNEL = "logsumexp"
ENVELOPE = (
    "any rank from 1, one dimension; copied where it is not contiguous",
    "below 2^31 rows",
)
FORWARD = "9q"
BACKWARD = "10q"


@replayed
def logsumexp(x: torch.Tensor, dim: int | Sequence[int], keepdim: bool = False) -> torch.Tensor:
    """Compute `torch.logsumexp` with its arguments and errors.

    Fall back to torch and record why if the kernel does not support the call.
    """
    one = dim if isinstance(dim, int) else dim[0] if len(dim) == 1 else None
    if one is None:
        routing.fall_back(KERNEL, "it is asked for several dimensions, and it reduces one")
    # Invalid arguments and empty tensors go to torch, which raises its own errors.
    if one is None or not -x.dim() <= one < x.dim() or x.numel() == 0 or not routing.takes(KERNEL, x):
        return torch.logsumexp(x, dim if isinstance(dim, int) else tuple(dim), keepdim)
    y = _OPERATOR(x, one % x.dim())
    return y.unsqueeze(one % x.dim()) if keepdim else y


def _launch(x: torch.Tensor, dim: int, statistics: bool = True) -> Tensors:
    x = x.contiguous()
    y, exact = _shapes(x, dim)
    routing.library(KERNEL, x.get_device()).launch(
        "forward", FORWARD,
        x.data_ptr(), y.data_ptr(), exact.data_ptr() if statistics else 0, *matrix(x, dim),
        routing.DTYPES[x.dtype], stream(x), x.get_device(),
    )  # fmt: skip
    return y, exact


def _launch_backward(grad: torch.Tensor, x: torch.Tensor, exact: torch.Tensor, dim: int) -> Tensors:
    grad, x = grad.contiguous(), x.contiguous()
    dx = torch.empty_like(x)
    routing.library(KERNEL, x.get_device()).launch(
        "backward", BACKWARD,
        grad.data_ptr(), x.data_ptr(), exact.data_ptr(), dx.data_ptr(), *matrix(x, dim),
        routing.DTYPES[x.dtype], stream(x), x.get_device(),
    )  # fmt: skip
    return (dx,)


def _compute(x: torch.Tensor, dim: int, statistics: bool = True) -> Tensors:
    exact = torch.logsumexp(x if x.dtype == torch.float64 else x.float(), dim).contiguous()
    return exact.to(x.dtype, copy=True), exact


def _compute_backward(grad: torch.Tensor, x: torch.Tensor, exact: torch.Tensor, dim: int) -> Tensors:
    share = (x.to(exact.dtype) - exact.unsqueeze(dim)).exp()
    return ((grad.to(exact.dtype).unsqueeze(dim) * share).to(x.dtype).contiguous(),)


def _shapes(x: torch.Tensor, dim: int) -> Tensors:
    shape = [*x.shape[:dim], *x.shape[dim + 1 :]]
    exact = torch.float64 if x.dtype == torch.float64 else torch.float32
    return x.new_empty(shape), x.new_empty(shape, dtype=exact)


def _backward_shapes(grad: Any, x: torch.Tensor, exact: Any, dim: int) -> Tensors:
    return (torch.empty_like(x, memory_format=torch.contiguous_format),)


def _saved(inputs: Sequence[Any], results: Tensors) -> Sequence[torch.Tensor | None]:
    return inputs[0], results[1]


def _gradients(
    saved: Sequence[Any], settings: Sequence[Any], needed: Sequence[bool], grad: torch.Tensor
) -> Sequence[Any]:
    return (*_OPERATOR.backward(grad, *saved, settings[1]), None)


_OPERATOR = Operator(
    KERNEL,
    # The device code takes no negative `dim`.
    Direction("(Tensor x, int dim) -> (Tensor, Tensor)", cpu=_compute, cuda=_launch, fake=_shapes),
    Direction(
        "(Tensor grad, Tensor x, Tensor exact, int dim) -> Tensor",
        cpu=_compute_backward, cuda=_launch_backward, fake=_backward_shapes,
    ),
    Gradient(_saved, _gradients),
)  # fmt: skip
SCHEMAS = _OPERATOR.schemas
