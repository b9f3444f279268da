"""Calls of the device code: alpha * a @ b + beta * c for matrices of any steps, one or many."""

from collections.abc import Sequence
from functools import cache
from math import prod
from typing import NamedTuple

import torch

from agent.kernels import routing
from agent.kernels.operators import address, stream

KERNEL = "matmul_fp32x3"
FORWARD = "21q2d2q"
"""Forward of csrc/sizes.cuh; the stream and the device are its last two."""
PRECISIONS = {"fp32x3": 0, "ieee": 1, "fp32x4": 2}
"""As `Precision` of linear_fp32x3/csrc/sizes.cuh and `More` of csrc/sizes.cuh."""
PARTS = {"whole": 0, "lower": 1, "upper": 2}
"""As `Part` of csrc/sizes.cuh: the side of an operand's diagonal that there is; the other one is not read."""
OTHER = {"whole": "whole", "lower": "upper", "upper": "lower"}
"""Of an operand seen transposed."""
Parts = tuple[str, str]
WHOLE: Parts = ("whole", "whole")

LEAST_DEPTH, LEAST_SHARE, LEAST_PRODUCTS, MOST_WASTE = 32, 200, 10**9, 1.3
"""Of `is_worth`: the depth, products for each value that is split, products in all, and what tiles may be
larger than the result."""
FLAT_DEPTH, FLAT_SHARE = 128, 1000
"""Below this depth results cost more than their products: there have to be more for each value."""
FEW_TILES, PRODUCTS_OF_FEW = 64, 1 << 31
_TILE = 128


def number_of(precision: str) -> int:
    """Raises ValueError for a precision that is none."""
    if precision not in PRECISIONS:
        raise ValueError(f"precision={precision!r}: there are {', '.join(PRECISIONS)}")
    return PRECISIONS[precision]


def check_part(name: str, part: str) -> None:
    """Raises ValueError for a part that is none."""
    if part not in PARTS:
        raise ValueError(f"{name}={part!r}: there are {', '.join(PARTS)}")


def kept(matrix: torch.Tensor, part: str) -> torch.Tensor:
    """With zeros where the part has nothing."""
    if part == "whole":
        return matrix
    return matrix.tril() if part == "lower" else matrix.triu()


def is_worth(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether the tensor cores were measured to be faster than SGEMM at such sizes, on an H200 (README.md).

    Both operands are split for it, which takes time as (m + n) * k does: there have to be enough products for
    each value, and enough of them in all.
    """
    *batch, m, n = shape_of(a, b)
    return is_worth_at(prod(batch), m, n, a.shape[-1]) and has_tensor_cores(a.get_device())


def is_worth_at(batch: int, m: int, n: int, k: int) -> bool:
    """The same by the sizes alone, for a GPU that has such tensor cores."""
    is_flat = k < FLAT_DEPTH
    if k < LEAST_DEPTH or m * n < (FLAT_SHARE if is_flat else LEAST_SHARE) * (m + n) or (is_flat and n % 2):
        return False
    tiles = -(-m // _TILE) * -(-n // _TILE)
    least = PRODUCTS_OF_FEW if batch * tiles < FEW_TILES else LEAST_PRODUCTS
    return batch * m * n * k >= least and tiles * _TILE * _TILE <= MOST_WASTE * m * n


@cache
@cache
def has_tensor_cores(device: int) -> bool:
    """Whether a CUDA device has those of sm_90."""
    return torch.cuda.get_device_capability(device) == (9, 0)


class Sum(NamedTuple):
    """What a product is multiplied by and what is added to it."""

    c: torch.Tensor | None
    alpha: float
    beta: float


def joined(*shapes: Sequence[int]) -> tuple[int, ...]:
    """What tensors of these shapes broadcast to. Raises RuntimeError where they do not."""
    return tuple(torch.broadcast_shapes(*shapes))  # type: ignore[no-untyped-call]


def shape_of(a: torch.Tensor, b: torch.Tensor) -> tuple[int, ...]:
    """Of a @ b for operands of rank 2 and more. Raises RuntimeError where their batches do not fit."""
    batch = joined(a.shape[:-2], b.shape[:-2])
    return (*batch, a.shape[-2], b.shape[-1])


def multiplied(
    a: torch.Tensor, b: torch.Tensor, added: Sum, precision: str, parts: Parts = WHOLE
) -> torch.Tensor:
    """alpha * a @ b + beta * c on CUDA; a and b of rank 2 and more, c anything that broadcasts to that.

    `parts` names the sides of a's and b's diagonals that there are.
    """
    if parts != WHOLE and (
        precision == "ieee" or a.shape[-1] < LEAST_DEPTH or not has_tensor_cores(a.get_device())
    ):
        a, b, parts = kept(a, parts[0]), kept(b, parts[1]), WHOLE
    shape = shape_of(a, b)
    y = a.new_empty(shape)
    if y.numel() == 0:
        return y
    (a, b, c), (batch, m, n) = _matrices(a, b, added.c, shape, parts[0] == "whole")
    device = y.get_device()
    library = routing.library(KERNEL, device)
    pointers = (a.data_ptr(), b.data_ptr(), address(c), y.data_ptr())
    values = (
        batch, m, n, a.shape[-1], *a.stride(), *b.stride(), *(c.stride() if c is not None else (0, 0, 0)),
        number_of(precision), PARTS[parts[0]], PARTS[parts[1]], added.alpha, added.beta, stream(y), device,
    )  # fmt: skip
    needed = library.ask("forward_workspace", FORWARD, *pointers, 0, *values)
    workspace = torch.empty(needed, dtype=torch.uint8, device=y.device) if needed else None
    library.launch("forward", FORWARD, *pointers, address(workspace), *values)
    return y


def _matrices(
    a: torch.Tensor, b: torch.Tensor, c: torch.Tensor | None, shape: tuple[int, ...], rows_join: bool
) -> tuple[tuple[torch.Tensor, torch.Tensor, torch.Tensor | None], tuple[int, int, int]]:
    """Operands as [batch, rows, columns], copied only where no one step leads through the batch."""
    batch = shape[:-2]
    if rows_join and batch and b.numel() == b.shape[-2] * b.shape[-1]:
        rows = a.expand(*batch, *a.shape[-2:])
        flat = c is None or c.dim() == 1
        if flat and _is_one_matrix(rows):
            # One matrix of more rows: fewer tiles with rows past the end.
            one, weight = rows.reshape(1, -1, a.shape[-1]), b.reshape(1, *b.shape[-2:])
            wide = None if c is None else c.expand(1, one.shape[1], shape[-1])
            return (one, weight, wide), (1, one.shape[1], shape[-1])
    made = tuple(x.expand(*batch, *x.shape[-2:]).reshape(-1, *x.shape[-2:]) for x in (a, b))
    whole = None if c is None else c.expand(shape).reshape(-1, *shape[-2:])
    return (made[0], made[1], whole), (made[0].shape[0], shape[-2], shape[-1])


def _is_one_matrix(a: torch.Tensor) -> bool:
    """Whether the batch's rows follow each other by one step, or are so few that a copy is nothing."""
    step = a.stride(-2) * a.shape[-2]
    for size, stride in zip(reversed(a.shape[:-2]), reversed(a.stride()[:-2]), strict=True):
        if size != 1 and stride != step:
            return False
        step *= size
    return True
