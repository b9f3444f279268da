"""Calls of the device code: alpha * a @ b + beta * c for matrices of any steps, one or many."""

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from math import prod
from typing import NamedTuple

import torch

from agent.kernels import routing
from agent.kernels.operators import Tensors, address, stream

KERNEL = "matmul_fp32x3"
FORWARD = "22q2d2q"
"""Forward of csrc/sizes.cuh; the stream and the device are its last two."""
PRECISIONS = {"fp32x3": 0, "ieee": 1, "fp32x4": 2, "bf16x6": 3}
"""As `Precision` of linear_fp32x3/csrc/sizes.cuh and `More` of csrc/sizes.cuh."""
SPARSE = 4
"""Another of `More`, which no caller names: what `multiplied_sparse` asks for."""
PARTS = {"whole": 0, "lower": 1, "upper": 2}
"""As `Part` of csrc/sizes.cuh: the side of a matrix's diagonal that there is; the other one is not read."""
OTHER = {"whole": "whole", "lower": "upper", "upper": "lower"}
"""Of an operand seen transposed."""
Parts = tuple[str, str, str]
"""Of a, of b and of the result."""
WHOLE: Parts = ("whole", "whole", "whole")
Multiplied = Callable[[torch.Tensor, torch.Tensor, Parts], torch.Tensor]
"""A product of two operands of these parts, times alpha."""

LEAST_DEPTH, ALL_DEPTH = 32, 512
"""Of csrc/launch.cuh, and of csrc/operands_sm90.cuh: up to which there are four products."""
_TILE, _STAGE, _SMS = 128, 64, 132
_STAGE_US, _OF_FOUR_US, _TILE_US, _START_US, _LAUNCH_US = 1.2, 1.5, 3.0, 12.0, 6.5
"""Of a stage of a tile with three products, with four, of a tile, of a product, of a kernel before it."""
_FEW_US, _STAGE_OF_FEW_US = 12.0, 0.7
"""Of a product of few tiles (csrc/few_tiles_sm90.cuh) beside what is split, and of each of its stages."""
_DEEPEST_FEW = 32
"""Of stages: where few tiles are deeper, their depth is shared out instead."""
_BYTES_OF_US, _PRODUCTS_OF_US = 2.7e6, 27e6
"""What memory moves; multiplications by SGEMM at its best (54 TFLOP/s)."""
_CHUNK, _READ_US = 32, 8.5
"""Of depth, which tiles whose operands are read once go through at a time (csrc/read_once_sm90.cuh); of
such a product."""
_CHUNK_US = {32: 1.0, 64: 1.07, 128: 1.1}
"""Of a chunk of a tile, by its columns."""
_WIDE_THIRDS_US, _LEAST_OF_HALVES = 1.45, 1024
"""Of one with 128 columns by three bf16 of each value, and the depth from which two fp16 are taken."""
_LEAST_READ, _MOST_READ = 8, 350
"""Rows or columns, at the least, and m * n / (m + n), of products whose operands are read once."""
_SGEMM_US, _SGEMM_BYTES_OF_US = 10.0, 1.9e6
"""Of SGEMM besides, and what it moves at the most, where a tile is as large as a product is wide."""
_MARGIN = 1.05


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
    """Whether the tensor cores are faster than SGEMM at such sizes, on this GPU.

    By the sizes alone (`is_worth_at`), or for operands that can be read once as they lie (`is_read_once_at`).
    """
    *batch, m, n = shape_of(a, b)
    count, k = prod(batch), a.shape[-1]
    if not (is_worth_at(count, m, n, k) or (count == 1 and is_read_once_at(m, n, k) and are_strips(a, b))):
        return False
    return has_tensor_cores(a.get_device())


def are_strips(*operands: torch.Tensor) -> bool:
    """Whether each operand lies so that it can be copied 16 bytes at a time (csrc/read_plan_sm90.cuh)."""
    for x in operands:
        across, along = x.stride()[-2:]
        if x.data_ptr() % 16 or min(across, along) != 1 or (across if along == 1 else along) % 4:
            return False
    return True


@lru_cache(maxsize=4096)
def is_read_once_at(m: int, n: int, k: int) -> bool:
    """Whether operands of such sizes are read once, for a GPU with the tensor cores of sm_90."""
    if k < LEAST_DEPTH or min(m, n) < _LEAST_READ or m * n >= _MOST_READ * (m + n):
        return False
    left, right = max(m, n), min(m, n)
    width = min((columns for columns in _CHUNK_US if columns >= right), default=_TILE)
    tiles, chunks = -(-left // _TILE) * -(-right // width), -(-k // _CHUNK)
    if tiles * chunks < _SMS:
        return False
    parts = max(1, min(_SMS // tiles, chunks))
    chunk = _WIDE_THIRDS_US if width == _TILE and k < _LEAST_OF_HALVES else _CHUNK_US[width]
    ours = _READ_US + chunk * tiles * chunks / _SMS + 8 * parts * m * n / _BYTES_OF_US
    products = tiles * _TILE * width * k
    return _SGEMM_US + max(products / _PRODUCTS_OF_US, 4 * k * (m + n) / _SGEMM_BYTES_OF_US) >= _MARGIN * ours


@lru_cache(maxsize=4096)
def is_worth_at(batch: int, m: int, n: int, k: int) -> bool:
    """By the sizes alone, for a GPU with the tensor cores of sm_90: where SGEMM at its best would be slower.

    What SGEMM takes is what its products and its results take at the least; measured it was never less than
    0.95 of that. Both models: README.md.
    """
    least = batch * m * n * (k / _PRODUCTS_OF_US + 4 / _BYTES_OF_US)
    return k >= LEAST_DEPTH and least >= _MARGIN * _expected_us(batch, m, n, k)


def _expected_us(batch: int, m: int, n: int, k: int) -> float:
    """Of both launches where tiles are few, else looking at b, splitting both, and what the tiles take."""
    rows, columns, depth = (-(-size // side) for size, side in ((m, _TILE), (n, _TILE), (k, _STAGE)))
    tiles = batch * rows * columns
    if tiles <= _SMS // 2 and depth <= _DEEPEST_FEW:
        return _FEW_US + depth * _STAGE_OF_FEW_US + 8 * batch * (m + n) * k / _BYTES_OF_US
    stages = depth * (_OF_FOUR_US if k <= ALL_DEPTH else _STAGE_US)
    of_b = batch * n * k
    looking = max(_LAUNCH_US, 4 * of_b / _BYTES_OF_US)
    splitting = max(_LAUNCH_US, 8 * (batch * m * k + of_b) / _BYTES_OF_US)
    return looking + splitting + _START_US + tiles / _SMS * (stages + _TILE_US)


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


def fit(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether operands of these shapes have a product with anything in it; the rest, errors too, is torch's
    to answer."""
    if min(len(a), len(b)) < 2 or a[-1] != b[-2] or 0 in (*a, *b):
        return False
    try:
        joined(a[:-2], b[:-2])
    except RuntimeError:
        return False
    return True


def is_right(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor | None) -> bool:
    """Whether a and b fit and c broadcasts to their product."""
    if not fit(a.shape, b.shape):
        return False
    shape = shape_of(a, b)
    try:
        return c is None or joined(c.shape, shape) == shape
    except RuntimeError:
        return False


def multiplied(
    a: torch.Tensor, b: torch.Tensor, added: Sum, precision: str, parts: Parts = WHOLE
) -> torch.Tensor:
    """alpha * a @ b + beta * c on CUDA; a and b of rank 2 and more, c anything that broadcasts to that.

    `parts` names the sides of a's, b's and the result's diagonals that there are.
    """
    return _launched(a, b, added, number_of(precision), parts)


def multiplied_sparse(a: torch.Tensor, b: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
    """a @ b of matrices on CUDA, a of mostly zeros, in float32 arithmetic; what of b meets zeros is not read.

    `known` is one value on the GPU, which has to be an infinity or NaN where b holds one: then zeros count.
    """
    return _launched(a, b, Sum(known, 1.0, 1.0), SPARSE, WHOLE)


def _launched(a: torch.Tensor, b: torch.Tensor, added: Sum, precision: int, parts: Parts) -> torch.Tensor:
    shape = shape_of(a, b)
    y = a.new_empty(shape)
    if y.numel() == 0:
        return y
    (a, b, c), (batch, m, n) = matrices(a, b, added.c, shape, parts[0] == parts[2] == "whole")
    device = y.get_device()
    library = routing.library(KERNEL, device)
    pointers = (a.data_ptr(), b.data_ptr(), address(c), y.data_ptr())
    values = (
        batch, m, n, a.shape[-1], *a.stride(), *b.stride(), *(c.stride() if c is not None else (0, 0, 0)),
        precision, *(PARTS[part] for part in parts), added.alpha, added.beta, stream(y), device,
    )  # fmt: skip
    needed = library.ask("forward_workspace", FORWARD, *pointers, 0, *values)
    workspace = torch.empty(needed, dtype=torch.uint8, device=y.device) if needed else None
    library.launch("forward", FORWARD, *pointers, address(workspace), *values)
    return y


def matrices(
    a: torch.Tensor, b: torch.Tensor, c: torch.Tensor | None, shape: tuple[int, ...], rows_join: bool
) -> tuple[tuple[torch.Tensor, torch.Tensor, torch.Tensor | None], tuple[int, int, int]]:
    """Operands as [batch, rows, columns], copied only where no one step leads through the batch.

    `rows_join`: a batch that meets one matrix is one matrix of more rows.
    """
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


def gradients(
    multiplied: Multiplied, tensors: Tensors, shape: Sequence[int], beta: float, parts: Parts,
    wanted: Sequence[bool],
) -> Tensors:  # fmt: skip
    """Of a, b and c, which has this shape, from (grad, a, b); an empty tensor for one that is not wanted."""
    grad, a, b = tensors
    da, db, dc = (grad.new_empty(0) for _ in range(3))
    if wanted[0]:
        of_a = multiplied(grad, b.mT, (parts[2], OTHER[parts[1]], parts[0]))
        da = of_a.sum_to_size(a.shape).contiguous()
    if wanted[1]:
        db = _of_right(multiplied, grad, a, b, parts).contiguous()
    if wanted[2]:
        dc = (kept(grad, parts[2]).sum_to_size(tuple(shape)) * beta).contiguous()
    return da, db, dc


def _of_right(
    multiplied: Multiplied, grad: torch.Tensor, a: torch.Tensor, b: torch.Tensor, parts: Parts
) -> torch.Tensor:
    a_is, b_is, y_is = parts
    own = (OTHER[a_is], y_is, b_is)
    if b.dim() == 2 and (a_is == y_is == "whole" or a.dim() == 2):
        # One matrix met all of a batch: its gradient is one product over all rows.
        rows = a.reshape(-1, a.shape[-1])
        return multiplied(rows.mT, grad.reshape(-1, grad.shape[-1]), own)
    return multiplied(a.mT, grad, own).sum_to_size(b.shape)
