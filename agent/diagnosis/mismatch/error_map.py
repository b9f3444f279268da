"""Picture of a mask of wrong elements with at most 48 by 48 cells, over the two most informative axes."""

from itertools import combinations

import torch

from agent.records import Axis, MismatchMap
from agent.records.mismatch import MOST_CELLS

Tensor = torch.Tensor
WARP = 32
"""Threads of a warp.

The rows of a folded 1D output have a multiple of this width, so lost lanes show as columns.
"""
SURELY_MORE = 1.0 + 1e-9
"""Minimum ratio by which the variance of a pair of axes must exceed that of the later pairs, beyond rounding.
"""


def draw_map(wrong: Tensor, output: int = 0) -> MismatchMap:
    """Return the map of a boolean mask with the output's shape and at least one wrong element.

    The map shows the pair of axes longer than 1 whose cells differ most (largest variance of the wrong
    share). On ties the last dimensions come first.
    """
    shape, total, count = tuple(wrong.shape), wrong.numel(), int(wrong.sum())
    long = [axis for axis in range(wrong.dim()) if wrong.shape[axis] > 1]
    if len(long) < 2:
        shares, axes = _folded(wrong.reshape(-1))
    else:
        best, shares, pair = -1.0, torch.zeros(0), (0, 0)
        for rows, columns in reversed(list(combinations(long, 2))):
            found = _shares(wrong, rows, columns)
            spread = float(found.var(correction=0))
            if spread > best * SURELY_MORE:
                best, shares, pair = spread, found, (rows, columns)
        axes = (_axis(wrong, pair[0]), _axis(wrong, pair[1]))
    cells = tuple("".join(map(_digit, row)) for row in shares.tolist())
    return MismatchMap(output=output, shape=shape, axes=axes, cells=cells, wrong=count, total=total)


def _axis(wrong: Tensor, axis: int) -> Axis:
    return Axis(name=f"dim {axis}", size=wrong.shape[axis])


def _shares(wrong: Tensor, rows: int, columns: int) -> Tensor:
    """Return the share of wrong elements in each cell, counted by rows of cells to avoid large tensors."""
    others = [axis for axis in range(wrong.dim()) if axis != columns]
    edges = _edges(wrong.shape[rows])
    counted = [
        _binned(wrong.narrow(rows, begin, end - begin).sum(dim=others))
        for begin, end in zip(edges, edges[1:], strict=False)
    ]
    heights = torch.tensor(edges).diff().double()
    widths = torch.tensor(_edges(wrong.shape[columns])).diff().double()
    behind = wrong.numel() / (wrong.shape[rows] * wrong.shape[columns])
    return torch.stack(counted).cpu().double() / (heights[:, None] * widths * behind)


def _folded(flat: Tensor) -> tuple[Tensor, tuple[Axis, Axis]]:
    """Fold a flat mask into rows of neighbouring elements; padding of the last row counts as right."""
    width = -(-flat.numel() // (MOST_CELLS * WARP)) * WARP
    height = -(-flat.numel() // width)
    padded = torch.zeros(height * width, dtype=torch.bool, device=flat.device)
    padded[: flat.numel()] = flat
    rows = Axis(name=f"index // {width}", size=height)
    columns = Axis(name=f"index % {width}", size=width)
    return _shares(padded.reshape(height, width), 0, 1), (rows, columns)


def _binned(counts: Tensor) -> Tensor:
    """Sum counts over the cells of one axis."""
    before = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
    return before[torch.tensor(_edges(counts.numel()), device=counts.device)].diff()


def _edges(size: int) -> list[int]:
    cells = min(size, MOST_CELLS)
    return [cell * size // cells for cell in range(cells + 1)]


def _digit(share: float) -> str:
    if share <= 0:
        return "0"
    return "9" if share >= 1 else str(max(1, min(8, -int(-share * 8 // 1))))
