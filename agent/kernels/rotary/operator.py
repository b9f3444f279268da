"""Rotary position embedding on the shipped kernel: operator `kernelwright::rotary_forward`."""

from collections.abc import Sequence
from typing import Any

import torch

from agent.kernels import routing
from agent.kernels.operators import Direction, Gradient, Operator, Tensors, address, stream
from agent.kernels.replaying.replayed import replayed

KERNEL = "rotary"
ENVELOPE = (
    "any rank from 2, positions along any dimension but the last, which is even; copied"
    " where not contiguous, but for rows apart by up to two strides before the positions and one behind",
    "pairs half a row apart or side by side; of the last dimension all, or as many as the tables have",
    "cosines and sines in the input's dtype or float32, or float32 frequencies; no gradient of those",
    "in place where x is contiguous and no gradient flows; else by a copy",
)
FORWARD = "21q"
"""Format of the struct `Forward` in csrc/launch.cuh."""
Gaps = tuple[int, int, int, int, int]
"""Last five fields of `Forward`: sizes and strides that locate the rows of x."""
DENSE = (0, 0, 0, 0, 0)


@replayed
def rotary(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, dim: int = -2, interleaved: bool = False
) -> torch.Tensor:
    """Rotate each pair (a, b) of the last dimension of x to (a cos - b sin, b cos + a sin).

    `cos` and `sin` are [positions, pairs]; positions run along dimension `dim` (negative). Pairs are (i, i +
    pairs), or (2i, 2i + 1) if `interleaved`; elements beyond the pairs are unchanged. Fall back to torch
    and record why if the kernel does not support the call. Raise ValueError for tables that do not fit.
    """
    _checked(x, cos, dim, (x.shape[dim],))
    if sin.shape != cos.shape:
        raise ValueError(f"sin is {tuple(sin.shape)} where cos is {tuple(cos.shape)}")
    if not _takes(x, cos, sin):
        return in_torch(x, cos, sin, dim, interleaved)
    return _OPERATOR(x, cos, sin, dim, 0, interleaved)


@replayed
def rotary_computed(
    x: torch.Tensor, frequencies: torch.Tensor, *, start: int = 0, dim: int = -2, interleaved: bool = False
) -> torch.Tensor:
    """Apply `rotary` with the angles (start + position) * frequency, computed in float32 by the kernel."""
    _checked(x, frequencies, dim, ())
    if not _takes(x, frequencies, None):
        return in_torch(x, *_tables(x, frequencies, dim, start), dim, interleaved)
    return _OPERATOR(x, frequencies, None, dim, start, interleaved)


def rotary_(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, dim: int = -2, interleaved: bool = False
) -> torch.Tensor:
    """Apply `rotary` in place and return x."""
    tensors = (x, cos, sin)
    flows = torch.is_grad_enabled() and any(one.requires_grad for one in tensors)
    plain = not torch.compiler.is_compiling() and routing.is_eager(tensors) and not flows
    if plain and x.is_contiguous() and sin.shape == cos.shape:
        _checked(x, cos, dim, (x.shape[dim],))
        if _takes(x, cos, sin) and x.is_cuda:
            _run(x, x, (cos, sin), (dim, 0, interleaved, False))
            torch.autograd.graph.increment_version(x)
            return x
    return x.copy_(rotary(x, cos, sin, dim=dim, interleaved=interleaved))


def _checked(x: torch.Tensor, table: torch.Tensor, dim: int, leading: tuple[int, ...]) -> None:
    if not -x.dim() <= dim <= -2:
        raise ValueError(f"dim={dim}: it is -2 to -{x.dim()} for {tuple(x.shape)}")
    if table.shape[:-1] != leading or table.dim() == 0 or 2 * table.shape[-1] > x.shape[-1]:
        raise ValueError(f"a table of {tuple(table.shape)} does not fit {tuple(x.shape)} with dim={dim}")


def _takes(x: torch.Tensor, table: torch.Tensor, sin: torch.Tensor | None) -> bool:
    if x.numel() == 0 or table.numel() == 0 or routing.is_disabled():
        return False
    if table.requires_grad or (sin is not None and sin.requires_grad):
        routing.fall_back(KERNEL, "a table wants a gradient")
    elif x.shape[-1] % 2:
        routing.fall_back(KERNEL, "the last dimension is odd")
    elif sin is None and table.dtype != torch.float32:
        routing.fall_back(KERNEL, "the frequencies are not float32")
    else:
        return routing.takes(KERNEL, x, table, sin)
    return False


def _tables(
    x: torch.Tensor, frequencies: torch.Tensor, dim: int, start: int
) -> tuple[torch.Tensor, torch.Tensor]:
    positions = torch.arange(start, start + x.shape[dim], device=x.device, dtype=frequencies.dtype)
    angles = torch.outer(positions, frequencies)
    return angles.cos(), angles.sin()


def in_torch(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, dim: int, interleaved: bool
) -> torch.Tensor:
    """Compute `rotary` in torch operators."""
    pairs = cos.shape[-1]
    between = [1] * (-dim - 2)
    c, s = (table.reshape(x.shape[dim], *between, pairs) for table in (cos, sin))
    turned, rest = x[..., : 2 * pairs], x[..., 2 * pairs :]
    a, b = (turned[..., ::2], turned[..., 1::2]) if interleaved else turned.chunk(2, -1)
    made = (a * c - b * s, b * c + a * s)
    y = torch.stack(made, -1).flatten(-2) if interleaved else torch.cat(made, -1)
    return torch.cat((y, rest), -1).to(x.dtype)


def _run(
    x: torch.Tensor,
    y: torch.Tensor,
    tables: tuple[torch.Tensor, torch.Tensor | None],
    way: tuple[int, int, bool, bool],
    gaps: Gaps = DENSE,
) -> None:
    """Launch the kernel; `way` is (dim, start, interleaved, whether to rotate backwards)."""
    dim, *rest = way
    inner = 1
    for size in x.shape[dim + 1 : -1]:
        inner *= size
    table, sin = (None if one is None else one.contiguous() for one in tables)
    assert table is not None
    device, size = x.get_device(), x.shape[-1]
    routing.library(KERNEL, device).launch(
        "forward", FORWARD,
        x.data_ptr(), table.data_ptr(), address(sin), y.data_ptr(), x.numel() // size, inner, x.shape[dim],
        size, table.shape[-1], *rest, routing.DTYPES[x.dtype], routing.DTYPES[table.dtype], stream(x), device,
        *gaps,
    )  # fmt: skip


def _placed(x: torch.Tensor, dim: int) -> tuple[torch.Tensor, Gaps]:
    """Return x and its strides, copied only if the kernel cannot read it as a view of queries or keys."""
    if not x.is_contiguous() and x.stride(-1) == 1:
        outer = _merged(x.shape[:dim], x.stride()[:dim])
        inner = _merged(x.shape[dim + 1 : -1], x.stride()[dim + 1 : -1])
        if len(outer) <= 2 and len(inner) <= 1:
            (_, by_first), (second, by_second) = [(1, 0), (1, 0), *outer][-2:]
            _, by_inner = [(1, 0), *inner][-1]
            return x, (second, by_first, by_second, x.stride(dim), by_inner)
    return x.contiguous(), DENSE


def _merged(shape: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """Return (size, stride) of the dimensions, merged where a single stride covers them."""
    made: list[tuple[int, int]] = []
    for size, stride in zip(shape, strides, strict=True):
        if size == 1:
            continue
        if made and made[-1][1] == size * stride:
            size *= made.pop()[0]
        made.append((size, stride))
    return made


def _launch(
    x: torch.Tensor, table: torch.Tensor, sin: torch.Tensor | None, dim: int, start: int, interleaved: bool,
    statistics: bool = True,
) -> Tensors:  # fmt: skip
    x, gaps = _placed(x, dim)
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    _run(x, y, (table, sin), (dim, start, interleaved, False), gaps)
    return (y,)


def _launch_backward(
    grad: torch.Tensor, table: torch.Tensor, sin: torch.Tensor | None, dim: int, start: int, interleaved: bool
) -> Tensors:
    grad, gaps = _placed(grad, dim)
    dx = torch.empty_like(grad, memory_format=torch.contiguous_format)
    _run(grad, dx, (table, sin), (dim, start, interleaved, True), gaps)
    return (dx,)


def _compute(
    x: torch.Tensor, table: torch.Tensor, sin: torch.Tensor | None, dim: int, start: int, interleaved: bool,
    statistics: bool = True, sign: int = 1,
) -> Tensors:  # fmt: skip
    cos, sines = _tables(x, table, dim, start) if sin is None else (table, sin)
    wide = x if x.dtype == torch.float64 else x.float()
    return (in_torch(wide, cos, sign * sines, dim, interleaved).to(x.dtype).contiguous(),)


def _compute_backward(
    grad: torch.Tensor, table: torch.Tensor, sin: torch.Tensor | None, dim: int, start: int, interleaved: bool
) -> Tensors:
    return _compute(grad, table, sin, dim, start, interleaved, sign=-1)


def _shapes(x: torch.Tensor, *others: Any) -> Tensors:
    return (torch.empty_like(x, memory_format=torch.contiguous_format),)


def _saved(inputs: Sequence[Any], results: Tensors) -> Sequence[torch.Tensor | None]:
    return tuple(inputs[1:3])


def _gradients(
    saved: Sequence[Any], settings: Sequence[Any], needed: Sequence[bool], grad: torch.Tensor
) -> Sequence[Any]:
    return (*_OPERATOR.backward(grad, *saved, *settings[3:]), None, None, None, None, None)


_OPERATOR = Operator(
    KERNEL,
    Direction(
        "(Tensor x, Tensor table, Tensor? sin, int dim, int start, bool interleaved) -> Tensor",
        cpu=_compute, cuda=_launch, fake=_shapes,
    ),
    Direction(
        "(Tensor grad, Tensor table, Tensor? sin, int dim, int start, bool interleaved) -> Tensor",
        cpu=_compute_backward, cuda=_launch_backward, fake=_shapes,
    ),
    Gradient(_saved, _gradients),
)  # fmt: skip
SCHEMAS = _OPERATOR.schemas
