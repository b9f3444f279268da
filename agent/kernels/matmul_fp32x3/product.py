"""Calls of the device code: alpha * a @ b + beta * c for one matrix or a batch, with any strides."""

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from math import prod
from typing import NamedTuple

import torch

from agent.kernels import routing
from agent.kernels.operators import Tensors, address, stream

KERNEL = "matmul_fp32x3"
FORWARD = "22q2d2q"
"""Struct format of `Forward` in csrc/sizes.cuh; its last two fields are the stream and the device."""
PRECISIONS = {"fp32x3": 0, "ieee": 1, "fp32x4": 2, "bf16x6": 3}
"""Values of `Precision` in linear_fp32x3/csrc/sizes.cuh and of `More` in csrc/sizes.cuh."""
SPARSE = 4
"""Value of `More` for `multiplied_sparse`; no user-visible precision has it."""
PARTS = {"whole": 0, "lower": 1, "upper": 2}
"""Values of `Part` in csrc/sizes.cuh: the side of the diagonal that exists. The other side is not read."""
OTHER = {"whole": "whole", "lower": "upper", "upper": "lower"}
"""Part of the transposed matrix, by the part of the matrix."""
Parts = tuple[str, str, str]
"""Names of the parts that exist of a, of b and of the result."""
WHOLE: Parts = ("whole", "whole", "whole")
Multiplied = Callable[[torch.Tensor, torch.Tensor, Parts], torch.Tensor]
"""Function that returns alpha * x @ y for operands x and y, given the parts of x, y and the result."""

LEAST_DEPTH, ALL_DEPTH = 32, 512
"""Smallest K (csrc/launch.cuh), and the K up to which four products are computed (csrc/operands_sm90.cuh)."""
_TILE, _STAGE, _SMS = 128, 64, 132
_STAGE_US, _OF_FOUR_US, _TILE_US, _START_US, _LAUNCH_US = 1.2, 1.5, 3.0, 12.0, 6.5
"""us of a tile's stage with three products and with four, of a tile, of the whole product, and of a kernel
before it.
"""
_FEW_US, _STAGE_OF_FEW_US = 12.0, 0.7
"""us of a product of few tiles (csrc/few_tiles_sm90.cuh) without the split, and of each of its stages."""
_DEEPEST_FEW = 32
"""Maximum number of stages of a product of few tiles. Products with more stages use split-K instead."""
_BYTES_OF_US, _PRODUCTS_OF_US = 2.7e6, 27e6
"""Bytes that memory moves per us, and multiplications per us of SGEMM at its best (54 TFLOP/s)."""
_CHUNK, _READ_US = 32, 8.5
"""K that a tile advances per chunk where operands are read once (csrc/read_once_sm90.cuh), and the fixed us
of a product computed so."""
_CHUNK_US = {32: 1.0, 64: 1.07, 128: 1.1}
"""us per chunk of a tile, by the tile's columns."""
_WIDE_THIRDS_US, _LEAST_OF_HALVES = 1.45, 1024
"""us per chunk of 128 columns with three bf16 parts per value, and the K from which two fp16 parts suffice.
"""
_LEAST_READ, _MOST_READ = 8, 350
"""Minimum of m and n, and bound of m * n / (m + n), for products whose operands are read once."""
_SGEMM_US, _SGEMM_BYTES_OF_US = 10.0, 1.9e6
"""Fixed us of SGEMM, and the most bytes it reads per us, where one tile spans the product's width."""
_MARGIN = 1.05


def number_of(precision: str) -> int:
    """Return the device code's number of a precision. Raises ValueError for an unknown precision."""
    if precision not in PRECISIONS:
        raise ValueError(f"precision={precision!r}: there are {', '.join(PRECISIONS)}")
    return PRECISIONS[precision]


def check_part(name: str, part: str) -> None:
    """Raise ValueError for an unknown part; `name` is the argument that has it."""
    if part not in PARTS:
        raise ValueError(f"{name}={part!r}: there are {', '.join(PARTS)}")


def kept(matrix: torch.Tensor, part: str) -> torch.Tensor:
    """Return the matrix with zeros outside `part`, a key of PARTS."""
    if part == "whole":
        return matrix
    return matrix.tril() if part == "lower" else matrix.triu()


def is_worth(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return True if the tensor cores are faster than SGEMM for these operands on this GPU.

    Either the sizes decide (`is_worth_at`), or the operands can be read once in place (`is_read_once_at`).
    """
    *batch, m, n = shape_of(a, b)
    count, k = prod(batch), a.shape[-1]
    if not (is_worth_at(count, m, n, k) or (count == 1 and is_read_once_at(m, n, k) and are_strips(a, b))):
        return False
    return has_tensor_cores(a.get_device())


def are_strips(*operands: torch.Tensor) -> bool:
    """Return True if each operand can be copied 16 bytes at a time (csrc/read_plan_sm90.cuh)."""
    for x in operands:
        across, along = x.stride()[-2:]
        if x.data_ptr() % 16 or min(across, along) != 1 or (across if along == 1 else along) % 4:
            return False
    return True


@lru_cache(maxsize=4096)
def is_read_once_at(m: int, n: int, k: int) -> bool:
    """Return True if reading operands of these sizes once beats SGEMM, on the tensor cores of sm_90."""
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
    """Return True if SGEMM at its best would be slower than the tensor cores of sm_90, by the sizes alone.

    SGEMM's time is modelled as the minimum for its multiplications and its results. Measured times were never
    below 0.95 of that minimum. README.md describes both models.
    """
    least = batch * m * n * (k / _PRODUCTS_OF_US + 4 / _BYTES_OF_US)
    return k >= LEAST_DEPTH and least >= _MARGIN * _expected_us(batch, m, n, k)


def _expected_us(batch: int, m: int, n: int, k: int) -> float:
    """Return the modelled us of the product on the tensor cores.

    Products of few tiles take two launches. Others take one pass that finds b's largest values, one that
    splits both operands, and one that multiplies the tiles.
    """
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
    """Return True if a CUDA device has the tensor cores of sm_90."""
    return torch.cuda.get_device_capability(device) == (9, 0)


class Sum(NamedTuple):
    """Terms of alpha * product + beta * c."""

    c: torch.Tensor | None
    alpha: float
    beta: float


def joined(*shapes: Sequence[int]) -> tuple[int, ...]:
    """Return the shape that these shapes broadcast to. Raises RuntimeError where they do not."""
    return tuple(torch.broadcast_shapes(*shapes))  # type: ignore[no-untyped-call]


def shape_of(a: torch.Tensor, b: torch.Tensor) -> tuple[int, ...]:
    """Return the shape of a @ b for operands of rank 2 and more.

    Raises RuntimeError for batches that do not broadcast.
    """
    batch = joined(a.shape[:-2], b.shape[:-2])
    return (*batch, a.shape[-2], b.shape[-1])


def fit(a: Sequence[int], b: Sequence[int]) -> bool:
    """Return True if operands of these shapes have a product that is not empty.

    All other calls are left to torch, which raises the errors.
    """
    if min(len(a), len(b)) < 2 or a[-1] != b[-2] or 0 in (*a, *b):
        return False
    try:
        joined(a[:-2], b[:-2])
    except RuntimeError:
        return False
    return True


def is_right(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor | None) -> bool:
    """Return True if a and b fit and c broadcasts to their product."""
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
    """Return alpha * a @ b + beta * c on CUDA.

    a and b have rank 2 or more, and c broadcasts to their product. `parts` names the part of a, b and the
    result that exists.
    """
    return _launched(a, b, added, number_of(precision), parts)


def multiplied_sparse(a: torch.Tensor, b: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
    """Return a @ b on CUDA in float32 arithmetic, for a matrix a of mostly zeros.

    Rows of b that meet only zeros are not read. `known` is one value on the GPU. It has to be an infinity or
    NaN where b holds an infinity or NaN; then zeros are multiplied too.
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
    """Return the operands as [batch, rows, columns] and (batch, m, n).

    An operand is copied only where no single stride leads through its batch. With `rows_join`, a batch of a
    that meets one matrix b becomes one matrix of more rows.
    """
    batch = shape[:-2]
    if rows_join and batch and b.numel() == b.shape[-2] * b.shape[-1]:
        rows = a.expand(*batch, *a.shape[-2:])
        flat = c is None or c.dim() == 1
        if flat and _is_one_matrix(rows):
            # One taller matrix has fewer tiles with rows past the end.
            one, weight = rows.reshape(1, -1, a.shape[-1]), b.reshape(1, *b.shape[-2:])
            wide = None if c is None else c.expand(1, one.shape[1], shape[-1])
            return (one, weight, wide), (1, one.shape[1], shape[-1])
    made = tuple(x.expand(*batch, *x.shape[-2:]).reshape(-1, *x.shape[-2:]) for x in (a, b))
    whole = None if c is None else c.expand(shape).reshape(-1, *shape[-2:])
    return (made[0], made[1], whole), (made[0].shape[0], shape[-2], shape[-1])


def _is_one_matrix(a: torch.Tensor) -> bool:
    """Return True if a single stride leads through the rows of the whole batch."""
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
    """Return the gradients of a, b and c from (grad, a, b), empty where unwanted. `shape` is c's."""
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
        # One matrix met the whole batch, so its gradient is one product over all rows.
        rows = a.reshape(-1, a.shape[-1])
        return multiplied(rows.mT, grad.reshape(-1, grad.shape[-1]), own)
    return multiplied(a.mT, grad, own).sum_to_size(b.shape)
