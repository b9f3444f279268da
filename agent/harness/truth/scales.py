"""Tolerances in proportion to the magnitude of an output's rows and columns.

A tolerance from the largest error of a whole output would allow any value in rows that are small beside other
rows. The reference's errors are therefore also measured relative to the root mean square of each row, and of
each column. The largest relative error of any row, times a row's root mean square, is the row's limit.
"""

from typing import NamedTuple

import torch

LEAST = 64
"""Minimum number of elements for an output to have limits by row and column."""
NEGLIGIBLE = 2.0**-40
"""Ratio to the largest row's root mean square below which a row's may consist of float64 rounding."""
TIGHTER = 0.25
"""Ratio to the whole output's limit below which limits by row and column are applied."""


class Local(NamedTuple):
    """Limits by row and by column, in float64, and the root mean squares of rows and columns (sizes)."""

    rows: torch.Tensor
    columns: torch.Tensor
    row_sizes: torch.Tensor
    column_sizes: torch.Tensor

    def floor(self, eps: float, least: float, begin: int, end: int) -> torch.Tensor:
        """Return the error that even zeros may have in the rows from `begin` to `end`."""
        limit = torch.minimum(self.rows[begin:end, None], self.columns[None])
        size = torch.minimum(self.row_sizes[begin:end, None], self.column_sizes[None])
        return torch.maximum(limit, 8 * eps * size).clamp_min(least)


def local(r64: torch.Tensor, runs: tuple[torch.Tensor, ...], width: int, absolute: float) -> Local | None:
    """Return limits by row and column, or None if those of the whole output are about as tight.

    `runs` are the float32 runs: one or two orders of summation, then the run of `tolerance.Sequence` if any.
    """
    if r64.numel() < LEAST or absolute <= 0:
        return None
    truth = _finite(r64).reshape(-1, width)
    errors = [(_finite(y.double()).reshape(-1, width) - truth).abs() for y in runs]
    for error, y in zip(errors, runs, strict=True):
        error[~(torch.isfinite(y) & torch.isfinite(r64)).reshape(-1, width)] = 0
    weights = [16.0, 16.0, 1.0][: len(runs)]
    limits = []
    for dim in (1, 0):
        size = truth.square().mean(dim=dim).sqrt()
        worst = torch.stack([w * e.amax(dim=dim) for w, e in zip(weights, errors, strict=True)]).amax(dim=0)
        limits.append((_proportional(size, worst, absolute), size))
    (rows, row_sizes), (columns, column_sizes) = limits
    if not bool((rows < TIGHTER * absolute).any() | (columns < TIGHTER * absolute).any()):
        return None
    known = column_sizes > NEGLIGIBLE * column_sizes.max()
    return Local(rows, columns, row_sizes, torch.where(known, column_sizes, torch.inf))


def _proportional(size: torch.Tensor, worst: torch.Tensor, absolute: float) -> torch.Tensor:
    """Return limits in proportion to `size` that no error in `worst` exceeds, capped at `absolute`."""
    known = size > NEGLIGIBLE * size.max()
    if int(known.sum()) < 2:
        return torch.full_like(size, absolute)
    share = (worst[known] / size[known]).max()
    return torch.where(known, share * size, absolute).clamp_max(absolute)


def _finite(x: torch.Tensor) -> torch.Tensor:
    return torch.nan_to_num(x, nan=0.0, posinf=0.0, neginf=0.0)
