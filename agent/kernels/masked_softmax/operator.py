"""Softmax of scaled and masked scores: operator `kernelwright::masked_softmax_forward`."""

from collections.abc import Sequence
from typing import Any

import torch

from agent.kernels import routing
from agent.kernels.operators import Direction, Gradient, Gradients, Operator, Tensors, address, stream
from agent.kernels.replaying.replayed import replayed

KERNEL = "masked_softmax"
ENVELOPE = (
    "any rank from 2, over the last dimension; copied where it is not contiguous",
    "a mask that broadcasts to the scores: boolean, or of their dtype and added; each optional with causal",
    "rows of at most 2^30 keys, below 2^31 rows",
)
NONE, NAMED, ADDED = range(3)
"""Kinds of mask, with the numbers of the device code: none, boolean, additive."""
FORWARD = "11qd5q"
BACKWARD = "8qd5q"
FEWEST_PARTS, LEAST_SHARED_BYTES = 32, 1 << 14
"""Minimum number of parts of the scores that share a mask, and minimum bytes of the mask, for the kernel to
sum its gradient. Below either, the sum has too little parallel work."""


@replayed
def masked_softmax(
    x: torch.Tensor, mask: torch.Tensor | None = None, *, scale: float = 1.0, causal: bool = False,
    start: int = 0,
) -> torch.Tensor:  # fmt: skip
    """Compute softmax(scale * x + mask) over the last dimension of scores [..., queries, keys].

    `mask` broadcasts to the scores: a boolean mask selects the keys (True), any other is added. With `causal`
    query i sees the keys up to position start + i. Masked keys get 0, and so does every key of a row in
    which all are masked. Fall back to torch and record why if the kernel does not support the call. Raise
    ValueError for scores of rank below 2, and torch's error for a mask that does not broadcast.
    """
    if x.dim() < 2:
        raise ValueError(f"scores of {tuple(x.shape)} are not [..., queries, keys]")
    if x.numel() == 0 or not _takes(x, mask):
        return in_torch(x, mask, scale, causal, start)
    wide, wide_mask = routing.widened(x), mask
    if mask is not None and mask.dtype != torch.bool:
        wide_mask = routing.widened(mask)
    return _OPERATOR(wide, wide_mask, float(scale), causal, start)


def in_torch(
    x: torch.Tensor, mask: torch.Tensor | None, scale: float, causal: bool, start: int
) -> torch.Tensor:
    """Compute `masked_softmax` in torch operators."""
    scores = scale * x
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    if causal:
        ahead = torch.ones(x.shape[-2:], dtype=torch.bool, device=x.device).triu(start + 1)
        scores = scores.masked_fill(ahead, -torch.inf)
    return torch.softmax(scores, -1).masked_fill((scores == -torch.inf).all(-1, keepdim=True), 0.0)


def _takes(x: torch.Tensor, mask: torch.Tensor | None) -> bool:
    if routing.is_disabled():
        return False
    reason = None
    if mask is not None:
        if mask.dtype not in (torch.bool, x.dtype) or mask.device != x.device:
            reason = "the mask is neither boolean nor of the scores' dtype, or on another device"
        elif not _broadcasts(mask, x):
            reason = "the mask does not broadcast to the scores"
    if reason is not None:
        routing.fall_back(KERNEL, reason)
    return reason is None and routing.takes(KERNEL, x)


def _broadcasts(mask: torch.Tensor, x: torch.Tensor) -> bool:
    sizes = zip(reversed(mask.shape), reversed(x.shape), strict=False)
    return mask.dim() <= x.dim() and all(one in (1, size) for one, size in sizes)


def _placed(mask: torch.Tensor | None, x: torch.Tensor) -> tuple[torch.Tensor | None, Sequence[int]]:
    """Return the mask with contiguous keys, the heads, and its strides by batch, head and query."""
    if mask is None:
        return None, (1, 0, 0, 0)
    if mask.dim() == 0 or mask.shape[-1] != x.shape[-1] or mask.stride(-1) != 1:
        mask = mask.expand(*mask.shape[:-1], x.shape[-1]).contiguous()
    wide = mask.expand(x.shape)
    steps: list[tuple[int, int]] = []
    for size, step in zip(x.shape[:-2], wide.stride(), strict=False):
        if steps and steps[-1][1] == size * step:
            steps[-1] = (steps[-1][0] * size, step)  # merged into one dimension
        elif size > 1:
            steps.append((size, step))
    if len(steps) > 2:
        return wide.contiguous(), (1, x.shape[-2] * x.shape[-1], 0, x.shape[-1])
    (_, of_batch), (heads, of_head) = [(1, 0), (1, 0), *steps][-2:]
    return wide, (heads, of_batch, of_head, wide.stride(-2))


def _kind(mask: torch.Tensor | None) -> int:
    if mask is None:
        return NONE
    return NAMED if mask.dtype == torch.bool else ADDED


def _launch(
    x: torch.Tensor, mask: torch.Tensor | None, scale: float, causal: bool, start: int,
    statistics: bool = True,
) -> Tensors:  # fmt: skip
    x = x.contiguous()
    placed, steps = _placed(mask, x)
    y = torch.empty_like(x)
    length, device = x.shape[-1], x.device.index
    routing.library(KERNEL, device).launch(
        "forward", FORWARD,
        x.data_ptr(), address(placed), y.data_ptr(), x.numel() // length, length, x.shape[-2], *steps,
        _kind(mask), scale, causal, start, routing.DTYPES[x.dtype], stream(x), device,
    )  # fmt: skip
    return (y,)


def _launch_backward(
    grad: torch.Tensor, y: torch.Tensor, scale: float, causal: bool, start: int, parts: int
) -> Gradients:
    grad, y = grad.contiguous(), y.contiguous()
    dx, of_mask = _backward_shapes(grad, y, scale, causal, start, parts)
    length, device = y.shape[-1], y.device.index
    routing.library(KERNEL, device).launch(
        "backward", BACKWARD,
        grad.data_ptr(), y.data_ptr(), dx.data_ptr(), address(of_mask), y.numel() // length, length,
        y.shape[-2], parts, scale, causal, start, routing.DTYPES[y.dtype], stream(y), device,
    )  # fmt: skip
    return (dx, of_mask)


def _compute(
    x: torch.Tensor, mask: torch.Tensor | None, scale: float, causal: bool, start: int,
    statistics: bool = True,
) -> Tensors:  # fmt: skip
    return (in_torch(x, mask, scale, causal, start).contiguous(),)


def _compute_backward(
    grad: torch.Tensor, y: torch.Tensor, scale: float, causal: bool, start: int, parts: int
) -> Gradients:
    product = grad * y
    dx = (scale * (product - y * product.sum(-1, keepdim=True))).contiguous()
    return dx, dx.view(parts, -1).sum(0) / scale if parts else None


def _shapes(x: torch.Tensor, *others: Any) -> Tensors:
    return (torch.empty_like(x, memory_format=torch.contiguous_format),)


def _backward_shapes(grad: Any, y: torch.Tensor, *others: Any) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Allocate the gradient of the scores and, if `parts` of them share the mask, the mask's, flat."""
    parts = others[-1]
    of_mask = y.new_empty(y.numel() // parts) if parts else None
    return torch.empty_like(y, memory_format=torch.contiguous_format), of_mask


def _parts(mask: torch.Tensor, y: torch.Tensor) -> int:
    """Return the number of equal parts of the scores that share the mask; 0 if torch sums the mask's
    gradient.
    """
    own = mask.shape[next((d for d, size in enumerate(mask.shape) if size > 1), mask.dim()) :]
    parts = y.numel() // mask.numel()
    is_shared = own == y.shape[y.dim() - len(own) :] and parts >= FEWEST_PARTS
    return parts if is_shared and mask.numel() * mask.itemsize >= LEAST_SHARED_BYTES else 0


def _saved(inputs: Sequence[Any], results: Tensors) -> Sequence[torch.Tensor | None]:
    return (results[0], inputs[1])


def _gradients(
    saved: Sequence[Any], settings: Sequence[Any], needed: Sequence[bool], grad: torch.Tensor
) -> Sequence[Any]:
    y, mask = saved[0], saved[1]
    scale, causal, start = settings[2:]
    if mask is None or not needed[1]:
        return (_OPERATOR.backward(grad, y, scale, causal, start, 0)[0], None, None, None, None)
    # The gradient of the mask lacks the scale, since the mask is added after scaling. It is summed from the
    # scaled gradient, which x needs too, and divided by the scale.
    # gradient, which x needs too, and divided.
    factor = scale if needed[0] and scale != 0 else 1.0
    parts = _parts(mask, y)
    scores, of_mask = _OPERATOR.backward(grad, y, factor, causal, start, parts)
    assert scores is not None
    if parts:
        assert of_mask is not None
        total = of_mask.view(mask.shape)
    else:
        total = scores.sum_to_size(mask.shape)
        total = total if factor == 1 else total / factor
    of_x = None if not needed[0] else scores if factor == scale else scores * scale
    return (of_x, total, None, None, None)


_OPERATOR = Operator(
    KERNEL,
    Direction(
        "(Tensor x, Tensor? mask, float scale, bool causal, int start) -> Tensor",
        cpu=_compute, cuda=_launch, fake=_shapes,
    ),
    Direction(
        "(Tensor grad, Tensor y, float scale, bool causal, int start, int parts) -> (Tensor, Tensor)",
        cpu=_compute_backward, cuda=_launch_backward, fake=_backward_shapes,
    ),
    Gradient(_saved, _gradients),
)  # fmt: skip
SCHEMAS = _OPERATOR.schemas
