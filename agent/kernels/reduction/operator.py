"""Sum, mean, maximum, argmax and norm over dimensions: `kernelwright::reduction_forward`."""

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from agent.kernels import routing
from agent.kernels.operators import Direction, Gradient, Operator, Tensors, address, stream
from agent.kernels.replaying.replayed import replayed

KERNEL = "reduction"
ENVELOPE = (
    "any rank from 1; the reduced dimensions in at most two runs of neighbours; copied where not contiguous",
    "sum, mean, norm (the Euclidean one), amax and argmax of below 2^31 elements, argmax of one run",
    "sums in float32; the gradient of sum and mean is torch's broadcast",
)
KINDS = {"sum": 0, "mean": 0, "amax": 1, "argmax": 2, "norm": 3}
"""Number by which device code knows each kind; a mean is a sum with a factor."""
_NO_KERNEL = ("sum", "mean")
"""Kinds whose gradient is a broadcast, without a kernel."""
_IN_FLOAT = ("sum", "norm")
"""Kinds that torch's autocast computes in float32."""
FORWARD = "10qd3q"
BACKWARD = "14q"


@replayed
def reduction(
    x: torch.Tensor, kind: str, dim: int | Sequence[int] | None = None, keepdim: bool = False
) -> torch.Tensor:
    """Return torch's sum, mean, amax, argmax or linalg.vector_norm over `dim`, or over all dimensions.

    Falls back to torch, with a warning, where the kernel does not support the call. Raises ValueError for
    another kind, and for argmax over several dimensions that are not all. Raises torch's errors for missing
    dimensions.
    """
    if kind not in KINDS:
        raise ValueError(f"kind={kind!r}: there are {', '.join(KINDS)}")
    asked = tuple(range(x.dim())) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    asked = asked or tuple(range(x.dim()))
    if kind == "argmax" and len(asked) not in (1, x.dim()):
        raise ValueError(f"argmax over {asked} of {x.dim()} dimensions: one is taken, or all")
    dims = sorted({one + x.dim() if one < 0 else one for one in asked})
    is_right = len(dims) == len(asked) and all(0 <= one < x.dim() for one in dims)
    if not is_right or x.numel() == 0 or x.dim() == 0 or not _takes(x, kind, dims):
        return in_torch(x, kind, list(asked), keepdim)
    if kind == "argmax":
        return _OPERATOR(x.detach(), kind, dims, keepdim)
    return _OPERATOR(routing.widened(x) if kind in _IN_FLOAT else x, kind, dims, keepdim)


def in_torch(x: torch.Tensor, kind: str, dims: list[int], keepdim: bool) -> torch.Tensor:
    """Return the reduction by torch's operator."""
    if kind == "argmax":
        return torch.argmax(x, dims[0] if len(dims) == 1 else None, keepdim)
    if kind == "norm":
        norm: torch.Tensor = torch.linalg.vector_norm(x, 2, dims, keepdim)
        return norm
    if kind == "amax":
        return torch.amax(x, dims, keepdim)
    return (torch.sum if kind == "sum" else torch.mean)(x, dims, keepdim)


def _takes(x: torch.Tensor, kind: str, dims: Sequence[int]) -> bool:
    if routing.is_disabled():
        return False
    reason = None
    if _sizes(x.shape, dims) is None:
        reason = "the reduced dimensions are in more than two runs of neighbours"
    elif kind in ("argmax", "amax") and prod([x.shape[dim] for dim in dims]) >= 2**31:
        reason = "the places need more than 31 bits"
    if reason is not None:
        routing.fall_back(KERNEL, reason)
    return reason is None and routing.takes(KERNEL, x)


def _sizes(shape: Sequence[int], dims: Sequence[int]) -> tuple[int, int, int, int, int] | None:
    """Return the sizes [a, r2, b, r1, c], where r2 and r1 are reduced.

    Return None if the reduced dimensions are in more than two runs of neighbours.
    """
    kept, inside = [1], False
    reduced: list[int] = []
    for place, size in enumerate(shape):
        if size == 1:
            continue
        if place not in dims:
            kept[-1] *= size
            inside = False
        elif inside:
            reduced[-1] *= size
        else:
            reduced.append(size)
            kept.append(1)
            inside = True
    if len(reduced) > 2:
        return None
    if len(reduced) == 2:
        return kept[0], reduced[0], kept[1], reduced[1], kept[2]
    if len(reduced) == 1:
        return kept[0], 1, 1, reduced[0], kept[1]
    return kept[0], 1, 1, 1, 1


def _launch(
    x: torch.Tensor, kind: str, dims: Sequence[int], keepdim: bool, statistics: bool = True
) -> Tensors:
    x = x.contiguous()
    y, beside = _shapes(x, kind, dims, keepdim)
    sizes = _sizes(x.shape, dims)
    assert sizes is not None
    factor = 1 / (sizes[1] * sizes[3]) if kind == "mean" else 1.0
    kept = beside if statistics and kind not in _NO_KERNEL else None
    device = x.device.index
    values = (*sizes, KINDS[kind], factor, routing.DTYPES[x.dtype], stream(x), device)
    pointers = (x.data_ptr(), y.data_ptr(), address(kept))
    library = routing.library(KERNEL, device)
    needed = library.ask("forward_workspace", FORWARD, *pointers, 0, *values)
    workspace = x.new_empty(needed, dtype=torch.uint8) if needed else None
    library.launch("forward", FORWARD, *pointers, address(workspace), *values)
    return (y, beside)


def _launch_backward(
    grad: torch.Tensor, x: torch.Tensor, y: torch.Tensor, beside: torch.Tensor, kind: str,
    dims: Sequence[int],
) -> Tensors:  # fmt: skip
    grad, x, y, beside = (tensor.contiguous() for tensor in (grad, x, y, beside))
    dx = torch.empty_like(x)
    sizes, device = _sizes(x.shape, dims), x.device.index
    assert sizes is not None
    routing.library(KERNEL, device).launch(
        "backward", BACKWARD,
        grad.data_ptr(), x.data_ptr(), y.data_ptr(), beside.data_ptr(), dx.data_ptr(), *sizes, KINDS[kind],
        routing.DTYPES[x.dtype], stream(x), device,
    )  # fmt: skip
    return (dx,)


def _compute(
    x: torch.Tensor, kind: str, dims: Sequence[int], keepdim: bool, statistics: bool = True
) -> Tensors:
    wide = x if x.dtype == torch.float64 else x.float()
    y = in_torch(wide, kind, list(dims), keepdim)
    beside = _shapes(x, kind, dims, keepdim)[1]
    if kind == "norm":
        beside = y.clone()
    elif kind == "amax":
        largest = in_torch(wide, kind, list(dims), keepdim=True)
        beside = -1 - (wide == largest).sum(list(dims), keepdim, dtype=torch.int32)
    return (y.to(y.dtype if kind == "argmax" else x.dtype).contiguous(), beside.contiguous())


def _compute_backward(
    grad: torch.Tensor, x: torch.Tensor, y: torch.Tensor, beside: torch.Tensor, kind: str,
    dims: Sequence[int],
) -> Tensors:  # fmt: skip
    shape = [1 if place in dims else size for place, size in enumerate(x.shape)]
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    given, top, exact = grad.reshape(shape).to(wide), y.reshape(shape).to(wide), x.to(wide)
    beside = beside.reshape(shape)
    if kind == "norm":
        dx = (given / beside * exact).masked_fill(beside == 0, 0)
    else:
        dx = given / (-1 - beside) * (exact == top)
    return (dx.to(x.dtype).contiguous(),)


def _shapes(x: torch.Tensor, kind: str, dims: Sequence[int], keepdim: bool) -> Tensors:
    shape = [
        1 if place in dims else size for place, size in enumerate(x.shape) if keepdim or place not in dims
    ]
    exact = torch.float64 if x.dtype == torch.float64 else torch.float32
    beside = torch.int32 if kind == "amax" else exact
    y = x.new_empty(shape, dtype=torch.int64 if kind == "argmax" else x.dtype)
    return (y, x.new_empty(shape if kind in ("amax", "norm") else 0, dtype=beside))


def _backward_shapes(grad: Any, x: torch.Tensor, *others: Any) -> Tensors:
    return (torch.empty_like(x, memory_format=torch.contiguous_format),)


def _saved(inputs: Sequence[Any], results: Tensors) -> Sequence[torch.Tensor | None]:
    x, kind = inputs[:2]
    if kind in _NO_KERNEL:  # the gradient needs only x's shape, so do not keep its memory alive
        x = x.new_empty(1).expand(x.shape)
    return (x, *results)


def _gradients(
    saved: Sequence[Any], settings: Sequence[Any], needed: Sequence[bool], grad: torch.Tensor
) -> Sequence[Any]:
    x, y, beside = saved
    _, kind, dims, _ = settings
    if kind not in _NO_KERNEL:
        return (*_OPERATOR.backward(grad, x, y, beside, kind, dims), None, None, None)
    wide = grad.reshape([1 if place in dims else size for place, size in enumerate(x.shape)])
    if kind == "mean":
        wide = wide / prod(x.shape[dim] for dim in dims)
    return (wide.expand(x.shape), None, None, None)


_OPERATOR = Operator(
    KERNEL,
    Direction(
        "(Tensor x, str kind, int[] dims, bool keepdim) -> (Tensor, Tensor)",
        cpu=_compute, cuda=_launch, fake=_shapes,
    ),
    Direction(
        "(Tensor grad, Tensor x, Tensor y, Tensor beside, str kind, int[] dims) -> Tensor",
        cpu=_compute_backward, cuda=_launch_backward, fake=_backward_shapes,
    ),
    Gradient(_saved, _gradients),
)  # fmt: skip
SCHEMAS = _OPERATOR.schemas
