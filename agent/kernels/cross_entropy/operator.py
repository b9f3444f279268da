"""Cross entropy on the shipped kernel: operator `kernelwright::cross_entropy_forward`."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from agent.kernels import routing
from agent.kernels.operators import Direction, Gradient, Operator, Tensors, address, stream

KERNEL = "cross_entropy"
ENVELOPE = (
    "classes in the last dimension, of any number; copied where it is not contiguous",
    "targets are int64 numbers of classes, of which one value is ignored; no weights, no probabilities",
    "label smoothing and a z-loss; a target that is no class makes its loss NaN",
    "below 2^31 rows",
)
FORWARD = "7q2d4q"
BACKWARD = "8q2d4q"


def cross_entropy(
    x: torch.Tensor, target: torch.Tensor, *, ignore_index: int = -100, label_smoothing: float = 0.0,
    z_loss: float = 0.0, reduction: str = "mean",
) -> torch.Tensor:  # fmt: skip
    """Compute F.cross_entropy of logits [*, classes] and targets [*], plus z_loss * logsumexp(x)^2 per row.

    `reduction` is none, mean (over the rows that are not ignored) or sum. Fall back to torch and record why
    if the kernel does not support the call. Raise ValueError for another reduction or targets of another
    shape.
    """
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"reduction={reduction!r}: there are none, mean, sum")
    if x.dim() == 0 or target.shape != x.shape[:-1]:
        raise ValueError(f"targets of {tuple(target.shape)} do not fit logits of {tuple(x.shape)}")
    settings = (ignore_index, float(label_smoothing), float(z_loss))
    if not 0 <= label_smoothing <= 1 or x.numel() == 0 or not _takes(x, target):
        return _reduced(in_torch(x, target, *settings), target, ignore_index, reduction)
    dtype = torch.float32 if torch.is_autocast_enabled("cuda") else x.dtype
    narrow = reduction == "none" and dtype == x.dtype
    losses = _OPERATOR(x, target, *settings, narrow)
    return _reduced(losses, target, ignore_index, reduction).to(dtype)


def in_torch(
    x: torch.Tensor, target: torch.Tensor, ignored: int, smoothing: float, z_loss: float
) -> torch.Tensor:
    """Return the loss of each row, computed in torch operators."""
    rows = x.reshape(-1, x.shape[-1])
    losses = F.cross_entropy(
        rows, target.reshape(-1), ignore_index=ignored, reduction="none", label_smoothing=smoothing
    ).view(target.shape)
    if z_loss == 0:
        return losses
    squares = torch.logsumexp(x, -1).square()
    return losses + z_loss * squares.masked_fill(target == ignored, 0)


def _takes(x: torch.Tensor, target: torch.Tensor) -> bool:
    fits = target.dtype == torch.int64 and target.device == x.device
    if not fits and not routing.is_disabled():
        routing.fall_back(KERNEL, "the targets are not int64 on the device of the logits")
    return fits and routing.takes(KERNEL, x)


def _reduced(losses: torch.Tensor, target: torch.Tensor, ignored: int, reduction: str) -> torch.Tensor:
    if reduction == "none":
        return losses
    total = losses.sum()
    return total if reduction == "sum" else total / (target != ignored).sum()


def _launch(
    x: torch.Tensor, target: torch.Tensor, ignored: int, smoothing: float, z_loss: float, narrow: bool,
    statistics: bool = True,
) -> Tensors:  # fmt: skip
    x, target = x.contiguous(), target.contiguous()
    losses, lse = _shapes(x, target, narrow)
    device = x.get_device()
    routing.library(KERNEL, device).launch(
        "forward", FORWARD,
        x.data_ptr(), target.data_ptr(), losses.data_ptr(), address(lse if statistics else None),
        target.numel(), x.shape[-1], ignored, smoothing, z_loss, narrow, routing.DTYPES[x.dtype], stream(x),
        device,
    )  # fmt: skip
    return (losses, lse)


def _launch_backward(
    grad: torch.Tensor, x: torch.Tensor, target: torch.Tensor, lse: torch.Tensor, ignored: int,
    smoothing: float, z_loss: float,
) -> Tensors:  # fmt: skip
    narrow = grad.dtype == x.dtype
    grad = grad.contiguous() if narrow else grad.float().contiguous()
    x, target = x.contiguous(), target.contiguous()
    dx = torch.empty_like(x)
    device = x.get_device()
    routing.library(KERNEL, device).launch(
        "backward", BACKWARD,
        grad.data_ptr(), x.data_ptr(), target.data_ptr(), lse.data_ptr(), dx.data_ptr(), target.numel(),
        x.shape[-1], ignored, smoothing, z_loss, narrow, routing.DTYPES[x.dtype], stream(x), device,
    )  # fmt: skip
    return (dx,)


def _compute(
    x: torch.Tensor, target: torch.Tensor, ignored: int, smoothing: float, z_loss: float, narrow: bool,
    statistics: bool = True,
) -> Tensors:  # fmt: skip
    wide = x if x.dtype == torch.float64 else x.float()
    losses = in_torch(wide, target, ignored, smoothing, z_loss)
    losses = losses.to(x.dtype) if narrow else losses
    return (losses.contiguous(), torch.logsumexp(wide, -1).contiguous())


def _compute_backward(
    grad: torch.Tensor, x: torch.Tensor, target: torch.Tensor, lse: torch.Tensor, ignored: int,
    smoothing: float, z_loss: float,
) -> Tensors:  # fmt: skip
    counts = (target != ignored).unsqueeze(-1)
    chosen = torch.zeros_like(x, dtype=lse.dtype).scatter_(-1, target.unsqueeze(-1).clamp(min=0), 1.0)
    log = lse.unsqueeze(-1)
    inner = (x.to(lse.dtype) - log).exp() * (1 + 2 * z_loss * log)
    inner = inner - (1 - smoothing) * chosen - smoothing / x.shape[-1]
    dx = grad.to(lse.dtype).unsqueeze(-1) * inner.masked_fill(~counts, 0)
    return (dx.to(x.dtype).contiguous(),)


def _shapes(x: torch.Tensor, target: Any, *settings: Any) -> Tensors:
    """Allocate the losses (dtype of x if narrow, else float32 or float64) and the residual logsumexp."""
    exact = torch.float64 if x.dtype == torch.float64 else torch.float32
    rows = x.shape[:-1]
    return x.new_empty(rows, dtype=x.dtype if settings[-1] else exact), x.new_empty(rows, dtype=exact)


def _backward_shapes(grad: Any, x: torch.Tensor, *others: Any) -> Tensors:
    return (torch.empty_like(x, memory_format=torch.contiguous_format),)


def _saved(inputs: Sequence[Any], results: Tensors) -> Sequence[torch.Tensor | None]:
    return (*inputs[:2], results[1])


def _gradients(
    saved: Sequence[Any], settings: Sequence[Any], needed: Sequence[bool], grad: torch.Tensor
) -> Sequence[Any]:
    return (*_OPERATOR.backward(grad, *saved, *settings[2:5]), *[None] * 5)


_OPERATOR = Operator(
    KERNEL,
    Direction(
        "(Tensor x, Tensor target, int ignored, float smoothing, float z_loss, bool narrow)"
        " -> (Tensor, Tensor)",
        cpu=_compute, cuda=_launch, fake=_shapes,
    ),
    Direction(
        "(Tensor grad, Tensor x, Tensor target, Tensor lse, int ignored, float smoothing, float z_loss)"
        " -> Tensor",
        cpu=_compute_backward, cuda=_launch_backward, fake=_backward_shapes,
    ),
    Gradient(_saved, _gradients),
)  # fmt: skip
SCHEMAS = _OPERATOR.schemas
