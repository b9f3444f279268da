"""`torch.nn.functional.gelu` on the shipped kernel: operator `kernelwright::gelu_forward`."""

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from agent.kernels import routing
from agent.kernels.operators import Direction, Gradient, Operator, Tensors, stream
from agent.kernels.replaying.replayed import replayed
from agent.kernels.small import is_torchs

KERNEL = "gelu"
ENVELOPE = ("any shape; copied where it is not contiguous",)
FORWARD = "7q"
BACKWARD = "8q"


@replayed
def gelu(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    """Compute `torch.nn.functional.gelu` with its arguments and errors.

    Fall back to torch and record why if the kernel does not support the call.
    """
    # Invalid arguments and empty tensors go to torch, which raises its own errors.
    known = approximate in ("none", "tanh") and x.numel() > 0
    if not known or is_torchs(KERNEL, x) or not routing.takes(KERNEL, x):
        return F.gelu(x, approximate=approximate)
    return _OPERATOR(x, approximate == "tanh")


def _launch(x: torch.Tensor, tanh: bool, statistics: bool = True) -> Tensors:
    x = x.contiguous()
    y = torch.empty_like(x)
    routing.library(KERNEL, x.get_device()).launch(
        "forward", FORWARD,
        x.data_ptr(), y.data_ptr(), x.numel(), tanh, routing.DTYPES[x.dtype], stream(x), x.get_device(),
    )  # fmt: skip
    return (y,)


def _launch_backward(grad: torch.Tensor, x: torch.Tensor, tanh: bool) -> Tensors:
    grad, x = grad.contiguous(), x.contiguous()
    dx = torch.empty_like(x)
    routing.library(KERNEL, x.get_device()).launch(
        "backward", BACKWARD,
        grad.data_ptr(), x.data_ptr(), dx.data_ptr(), x.numel(), tanh, routing.DTYPES[x.dtype], stream(x),
        x.get_device(),
    )  # fmt: skip
    return (dx,)


def _compute(x: torch.Tensor, tanh: bool, statistics: bool = True) -> Tensors:
    return (F.gelu(x.contiguous(), approximate="tanh" if tanh else "none"),)


def _compute_backward(grad: torch.Tensor, x: torch.Tensor, tanh: bool) -> Tensors:
    wide = x if x.dtype == torch.float64 else x.float()
    if tanh:
        bent = torch.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3))
        inner = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * wide.square())
        slope = (1 + bent) / 2 + wide / 2 * (1 - bent.square()) * inner
    else:
        density = (-wide.square() / 2).exp() / math.sqrt(2 * math.pi)
        slope = (1 + torch.erf(wide / math.sqrt(2))) / 2 + wide * density
    return ((grad.to(wide.dtype) * slope).to(x.dtype).contiguous(),)


def _shapes(x: torch.Tensor, tanh: bool) -> Tensors:
    return (torch.empty_like(x, memory_format=torch.contiguous_format),)


def _backward_shapes(grad: Any, x: torch.Tensor, tanh: bool) -> Tensors:
    return (torch.empty_like(x, memory_format=torch.contiguous_format),)


def _saved(inputs: Sequence[Any], results: Tensors) -> Sequence[torch.Tensor | None]:
    return (inputs[0],)


def _gradients(
    saved: Sequence[Any], settings: Sequence[Any], needed: Sequence[bool], grad: torch.Tensor
) -> Sequence[Any]:
    return (*_OPERATOR.backward(grad, saved[0], settings[1]), None)


_OPERATOR = Operator(
    KERNEL,
    Direction("(Tensor x, bool tanh) -> Tensor", cpu=_compute, cuda=_launch, fake=_shapes),
    Direction(
        "(Tensor grad, Tensor x, bool tanh) -> Tensor",
        cpu=_compute_backward, cuda=_launch_backward, fake=_backward_shapes,
    ),
    Gradient(_saved, _gradients),
)  # fmt: skip
SCHEMAS = _OPERATOR.schemas
