"""Cross entropy of a linear layer in chunks of rows: operator `kernelwright::linear_cross_entropy_forward`.

The logits never exist as a whole. For each chunk torch computes the logits; the kernel turns them into losses
and, in place, gradients. Two more products give the gradients of the rows and the weight. Backward does not
recompute the logits: it only multiplies by the gradient of the loss.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from agent.kernels import routing
from agent.kernels.cross_entropy.operator import in_torch as cross_entropy_in_torch
from agent.kernels.operators import Direction, Gradient, Operator, Tensors, stream

KERNEL = "linear_cross_entropy"
ENVELOPE = (
    "x [*, features], weight [classes, features] and bias of one dtype; of that under autocast",
    "targets are int64 numbers of classes, of which one value is ignored",
    "label smoothing and a z-loss; the mean over the rows that count, or the sum",
    "products by torch, with torch's setting of TF32, in chunks of at most 512 MiB of logits, or at once"
    " where adding up the weight's gradient would take more memory",
    "gradients of a weight of several chunks are summed in float32",
)
CHUNK_BYTES = 1 << 29
"""Bytes of logits per chunk."""
CHUNK_ROWS = 256
"""Chunks larger than this are a multiple of this many rows, which suits the tiles of the products."""
FORWARD = "7q2d4q"
Differentiated = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, bool], torch.Tensor]
"""(logits, targets, share, gradients wanted) -> losses of the rows. Gradients overwrite the logits."""


def linear_cross_entropy(
    x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, bias: torch.Tensor | None = None, *,
    ignore_index: int = -100, label_smoothing: float = 0.0, z_loss: float = 0.0, reduction: str = "mean",
) -> torch.Tensor:  # fmt: skip
    """Compute F.cross_entropy(F.linear(x, weight, bias), target), plus z_loss * logsumexp^2 per row.

    x is [*, features], weight [classes, features], target [*]. `reduction` is sum or mean (over the rows that
    are not ignored); the loss is float32. Fall back to torch, with all logits in memory, and record why if
    the kernel does not support the call. Raise ValueError for another reduction or sizes that do not fit.
    """
    if reduction not in ("mean", "sum"):
        raise ValueError(f"reduction={reduction!r}: there are mean, sum")
    fits = (
        x.dim() > 0 and weight.dim() == 2 and x.shape[-1] == weight.shape[1] and target.shape == x.shape[:-1]
    )
    if not fits or (bias is not None and bias.shape != weight.shape[:1]):
        shapes = f"x {tuple(x.shape)}, weight {tuple(weight.shape)}, target {tuple(target.shape)}"
        raise ValueError(f"sizes do not fit: {shapes}")
    if torch.is_autocast_enabled("cuda") and x.is_cuda:
        dtype = torch.get_autocast_dtype("cuda")
        x, weight = x.to(dtype), weight.to(dtype)
        bias = None if bias is None else bias.to(dtype)
    settings = (ignore_index, float(label_smoothing), float(z_loss), reduction == "mean")
    if x.numel() == 0 or not 0 <= label_smoothing <= 1 or not _takes(x, weight, bias, target):
        return in_torch(x, weight, bias, target, *settings)
    tensors = (x, weight, bias)
    wanted = [torch.is_grad_enabled() and one is not None and one.requires_grad for one in tensors]
    return _OPERATOR(*tensors, target, *settings, wanted)


def in_torch(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, target: torch.Tensor, ignored: int,
    smoothing: float, z_loss: float, mean: bool,
) -> torch.Tensor:  # fmt: skip
    """Compute `linear_cross_entropy` in torch operators, from all logits at once."""
    logits = F.linear(x, weight, bias)
    wide = logits if logits.dtype == torch.float64 else logits.float()
    total = cross_entropy_in_torch(wide, target, ignored, smoothing, z_loss).sum()
    return total / (target != ignored).sum() if mean else total


def _takes(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, target: torch.Tensor) -> bool:
    if routing.is_disabled():
        return False
    reason = None
    if weight.dtype != x.dtype or (bias is not None and bias.dtype != x.dtype):
        reason = "weight and bias are not of the input's dtype"
    elif target.dtype != torch.int64 or target.device != x.device:
        reason = "the targets are not int64 on the device of the input"
    if reason is not None:
        routing.fall_back(KERNEL, reason)
    return reason is None and routing.takes(KERNEL, x, weight, bias)


def _in_chunks(
    tensors: Sequence[torch.Tensor | None], target: torch.Tensor, settings: Sequence[Any],
    wanted: Sequence[bool], differentiated: Differentiated,
) -> Tensors:  # fmt: skip
    """Return the loss and the gradients of x, weight and bias; `settings` is (ignored target, mean)."""
    x, weight, bias = tensors
    assert x is not None
    assert weight is not None
    ignored, mean = settings
    rows, flat = x.reshape(-1, x.shape[-1]).contiguous(), target.reshape(-1).contiguous()
    made = _shapes(x, weight, bias, target, *settings, wanted)
    exact = made[0].dtype
    share = (flat != ignored).sum(dtype=exact).reciprocal() if mean else torch.ones_like(made[0])
    size = _rows_at_once(len(rows), weight, exact.itemsize, wanted[1])
    alone, losses = size >= len(rows), []
    sums = [made[2] if alone else torch.zeros_like(made[2], dtype=exact)]
    sums.append(torch.zeros_like(made[3], dtype=exact))
    for first in range(0, len(rows), size):
        part = rows[first : first + size]
        logits = F.linear(part, weight, bias)
        losses.append(differentiated(logits, flat[first : first + size], share, any(wanted)))
        if wanted[0]:
            torch.mm(logits, weight, out=made[1].view(rows.shape)[first : first + size])
        if wanted[1] and alone:
            torch.mm(logits.T, part, out=sums[0])
        elif wanted[1]:
            sums[0] += logits.T @ part
        if wanted[2]:
            sums[1] += logits.sum(0, dtype=exact)
    loss = (losses[0] if alone else torch.cat(losses)).sum() * share
    return (loss, made[1], *(total.to(x.dtype) for total in sums))


def _rows_at_once(rows: int, weight: torch.Tensor, exact: int, adds_up: bool) -> int:
    """Return the rows per chunk.

    With `adds_up`, chunks need a buffer for the weight's gradient (`exact` bytes an element) and one for the
    term to add to it. All rows form one chunk if their logits take no more memory than a chunk with these
    buffers.
    """
    classes, features = weight.shape
    of_chunks = CHUNK_BYTES + adds_up * classes * features * (exact + weight.element_size())
    if rows * classes * weight.element_size() <= of_chunks:
        return rows
    size = max(1, CHUNK_BYTES // (classes * weight.element_size()))
    return size - size % CHUNK_ROWS if size > CHUNK_ROWS else size


def _launched(ignored: int, smoothing: float, z_loss: float) -> Differentiated:
    def differentiated(
        logits: torch.Tensor, target: torch.Tensor, share: torch.Tensor, gradient: bool
    ) -> torch.Tensor:
        losses = torch.empty(len(logits), dtype=torch.float32, device=logits.device)
        device = logits.device.index
        routing.library(KERNEL, device).launch(
            "forward", FORWARD,
            logits.data_ptr(), target.data_ptr(), share.data_ptr(), losses.data_ptr(), *logits.shape, ignored,
            smoothing, z_loss, gradient, routing.DTYPES[logits.dtype], stream(logits), device,
        )  # fmt: skip
        return losses

    return differentiated


def _computed(ignored: int, smoothing: float, z_loss: float) -> Differentiated:
    def differentiated(
        logits: torch.Tensor, target: torch.Tensor, share: torch.Tensor, gradient: bool
    ) -> torch.Tensor:
        wide = logits.to(share.dtype, copy=True)
        losses = cross_entropy_in_torch(wide, target, ignored, smoothing, z_loss)
        if gradient:
            given, lse = share.expand(len(wide)), torch.logsumexp(wide, -1)
            backward = torch.ops.kernelwright.cross_entropy_backward
            logits.copy_(backward(given, wide, target, lse, ignored, smoothing, z_loss))
        return losses

    return differentiated


def _launch(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, target: torch.Tensor, ignored: int,
    smoothing: float, z_loss: float, mean: bool, wanted: Sequence[bool], statistics: bool = True,
) -> Tensors:  # fmt: skip
    launched = _launched(ignored, smoothing, z_loss)
    return _in_chunks((x, weight, bias), target, (ignored, mean), wanted, launched)


def _compute(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, target: torch.Tensor, ignored: int,
    smoothing: float, z_loss: float, mean: bool, wanted: Sequence[bool], statistics: bool = True,
) -> Tensors:  # fmt: skip
    computed = _computed(ignored, smoothing, z_loss)
    return _in_chunks((x, weight, bias), target, (ignored, mean), wanted, computed)


def _scaled(grad: torch.Tensor, dx: torch.Tensor, dweight: torch.Tensor, dbias: torch.Tensor) -> Tensors:
    return tuple(one * grad.to(one.dtype) for one in (dx, dweight, dbias))


def _shapes(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, target: Any, *others: Any
) -> Tensors:
    """Allocate the loss and the wanted gradients; an unwanted gradient is empty."""
    exact = torch.float64 if x.dtype == torch.float64 else torch.float32
    tensors = zip((x, weight, bias), others[-1], strict=True)
    return (
        x.new_empty((), dtype=exact),
        *(x.new_empty(one.shape if want and one is not None else 0) for one, want in tensors),
    )


def _scaled_shapes(grad: Any, *made: torch.Tensor) -> Tensors:
    return tuple(torch.empty_like(one) for one in made)


def _saved(inputs: Sequence[Any], results: Tensors) -> Sequence[torch.Tensor | None]:
    return results[1:]


def _gradients(
    saved: Sequence[Any], settings: Sequence[Any], needed: Sequence[bool], grad: torch.Tensor
) -> Sequence[Any]:
    made = _OPERATOR.backward(grad, *saved)
    return (*(one if want else None for one, want in zip(made, needed, strict=False)), *[None] * 6)


_OPERATOR = Operator(
    KERNEL,
    Direction(
        "(Tensor x, Tensor weight, Tensor? bias, Tensor target, int ignored, float smoothing, float z_loss,"
        " bool mean, bool[] wanted) -> (Tensor, Tensor, Tensor, Tensor)",
        cpu=_compute, cuda=_launch, fake=_shapes,
    ),
    Direction(
        "(Tensor grad, Tensor dx, Tensor dweight, Tensor dbias) -> (Tensor, Tensor, Tensor)",
        cpu=_scaled, cuda=_scaled, fake=_scaled_shapes,
    ),
    Gradient(_saved, _gradients),
)  # fmt: skip
SCHEMAS = _OPERATOR.schemas
