"""Running sums, products and extremes in one form: direction, inclusion of elements, and carry."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from agent.diagnosis.graph import Arguments

Tensor = torch.Tensor


class Operation(NamedTuple):
    """Associative operation of a scan."""

    scan: Callable[[Tensor], Tensor]
    """Function that scans a tensor along its last dim."""
    combine: Callable[[Tensor, Tensor], Tensor]
    neutral: float
    spoken: str


OPERATIONS: dict[str, Operation] = {
    "cumsum": Operation(lambda r: r.cumsum(-1), torch.add, 0.0, "sum"),
    "cumprod": Operation(lambda r: r.cumprod(-1), torch.mul, 1.0, "product"),
    "cummax": Operation(lambda r: r.cummax(-1)[0], torch.maximum, -math.inf, "maximum"),
    "cummin": Operation(lambda r: r.cummin(-1)[0], torch.minimum, math.inf, "minimum"),
    "logcumsumexp": Operation(lambda r: r.logcumsumexp(-1), torch.logaddexp, -math.inf, "log-sum-exp"),
    "overflowing": Operation(
        lambda r: r.float().exp().cumsum(-1).log().double(), torch.logaddexp, -math.inf, "",
    ),
    "underflowing": Operation(
        lambda r: ((r - r.amax(-1, True)).float().exp().cumsum(-1).log() + r.amax(-1, True)).double(),
        torch.logaddexp, -math.inf, "",
    ),
}  # fmt: skip


class Scan(NamedTuple):
    """Parts of a scan (cumulative sum, product or extreme), each of which a fault may change."""

    operation: str
    dim: int
    dtype: torch.dtype
    reverse: bool = False
    takes: str = "inclusive"
    """Elements included: `inclusive`, `exclusive`, `ahead` by one, `without first`, or `total`."""
    tile: tuple[int, str] | None = None
    """Number of elements scanned together, and the mode of their carry (see `_carries`)."""
    joined: str = ""
    """Operation that combines a tile with its carry, if other than the scan's."""
    warp: int = 0
    """Number of elements within a tile after which the scan restarts from the tile's carry; 0 for none."""
    rows: tuple[str, int] | None = None
    """Carry between rows: mode `one` or `all` with a dim, or `rows` with a row distance (see `_before`)."""
    start: float | None = None
    first_of_equal: bool = False
    counted: int = 0
    """Size of the tiles from whose start indices are counted; 0 for the row's start."""


def scanned(given: Arguments, parts: Scan) -> Tensor:
    x: Tensor = given["self"]
    moved = x.to(parts.dtype).movedim(parts.dim, -1)
    return _accumulated(moved, parts).movedim(-1, parts.dim)


def with_places(given: Arguments, parts: Scan) -> tuple[Tensor, Tensor]:
    """Return values and indices of a running extreme."""
    rows = given["self"].movedim(parts.dim, -1)
    values = _accumulated(rows, parts)
    found = rows == values
    if parts.first_of_equal:
        found[..., 1:] &= values[..., 1:] != values[..., :-1]
    place = torch.arange(rows.shape[-1])
    if parts.reverse:
        last = torch.where(found, place, rows.shape[-1] - 1).flip(-1).cummin(-1)[0].flip(-1)
    else:
        last = torch.where(found, place, 0).cummax(-1)[0]
    last = last % parts.counted if parts.counted else last
    return values.movedim(-1, parts.dim), last.movedim(-1, parts.dim)


def _accumulated(rows: Tensor, parts: Scan) -> Tensor:
    operation = OPERATIONS[parts.operation]
    r = rows.flip(-1) if parts.reverse else rows
    if parts.takes == "without first":
        r = torch.cat([torch.full_like(r[..., :1], operation.neutral), r[..., 1:]], -1)
    out = _tiled(r, operation, parts) if parts.tile else _taking(operation.scan(r), operation, parts)
    if parts.rows is not None:
        out = operation.combine(out, _before(operation.scan(r), operation, *parts.rows))
    if parts.start is not None:
        out = operation.combine(out, torch.full_like(out, parts.start))
    out = out[..., -1:].expand_as(out) if parts.takes == "total" else out
    return out.flip(-1) if parts.reverse else out


def _taking(out: Tensor, operation: Operation, parts: Scan) -> Tensor:
    """Return an inclusive scan changed to include the elements that `parts.takes` names."""
    if parts.takes == "exclusive":
        return torch.cat([torch.full_like(out[..., :1], operation.neutral), out[..., :-1]], -1)
    if parts.takes == "ahead":
        return torch.cat([out[..., 1:], out[..., -1:]], -1)
    return out


def _tiled(r: Tensor, operation: Operation, parts: Scan) -> Tensor:
    assert parts.tile is not None
    size, mode = parts.tile
    done: list[Tensor] = []
    carry = torch.full_like(r[..., :1], operation.neutral)
    late = carry
    for part in torch.split(r, size, -1):
        lanes = torch.split(part, parts.warp or size, -1)
        inner = torch.cat([operation.scan(each) for each in lanes], -1)
        taken = torch.cat([_taking(operation.scan(each), operation, parts) for each in lanes], -1)
        joining = OPERATIONS[parts.joined] if parts.joined and done else operation
        done.append(joining.combine(taken, carry))
        total = operation.scan(part)[..., -1:]
        late, carry = _carries(mode, operation, (carry, late), (part, inner, total))
    return torch.cat(done, -1)


def _carries(
    mode: str, operation: Operation, before: tuple[Tensor, Tensor], tile: tuple[Tensor, Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """Return the carry kept for the tile after the next one, and the carry of the next one."""
    carry, late = before
    part, inner, total = tile
    none = torch.full_like(carry, operation.neutral)
    if mode == "lost":
        return none, none
    if mode == "one":
        return none, total
    if mode == "first":
        return carry, torch.where(carry == none, total, carry)
    if mode == "late":
        return operation.combine(late, total), late
    if mode == "last warp":
        return none, operation.combine(carry, inner[..., -1:])
    if mode == "without last":
        total = operation.scan(part)[..., -2:-1] if part.shape[-1] > 1 else none
    if mode == "last element":
        total = part[..., -1:]
    return none, operation.combine(carry, total)


def _before(out: Tensor, operation: Operation, mode: str, number: int) -> Tensor:
    """Return the carry from other rows.

    Modes `all` and `one` take all rows or one row before along dim `number`. Mode `rows` takes every
    `number`-th row before.
    """
    totals = out[..., -1]
    if mode == "rows":
        flat = totals.reshape(-1)
        begins = torch.full_like(flat, operation.neutral)
        for row in range(number, len(flat)):
            begins[row] = operation.combine(begins[row - number], flat[row - number])
        return begins.reshape(totals.shape).unsqueeze(-1)
    along = totals.movedim(number, -1)
    running = operation.scan(along) if mode == "all" else along
    neutral = torch.full_like(running[..., :1], operation.neutral)
    return torch.cat([neutral, running[..., :-1]], -1).movedim(-1, number).unsqueeze(-1)


def parts_of(name: str, given: Arguments, result: Any) -> Scan:
    """Return the parts of the reference's operator."""
    values = result[0] if isinstance(result, tuple) else result
    return Scan(name, given["dim"] % max(given["self"].dim(), 1), values.dtype)
