"""A recorded mismatch map as SVG: one path for each share of wrong elements."""

from itertools import groupby
from typing import NamedTuple

from agent.records import MismatchMap

CELL = 8
"""Width and height of a cell, in units of the drawing."""


class Drawing(NamedTuple):
    width: int
    height: int
    paths: tuple[tuple[int, str], ...]
    """Levels from 1 to 9, each with an SVG path of its cells."""
    description: str


def draw(recorded: MismatchMap) -> Drawing:
    paths: dict[int, list[str]] = {}
    for row, cells in enumerate(recorded.cells):
        column = 0
        for digit, run in groupby(cells):
            length = len(list(run))
            if digit in "123456789":
                corner = f"M{column * CELL} {row * CELL}"
                paths.setdefault(int(digit), []).append(f"{corner}h{length * CELL}v{CELL}h-{length * CELL}z")
            column += length
    return Drawing(
        width=CELL * max(map(len, recorded.cells), default=0),
        height=CELL * len(recorded.cells),
        paths=tuple((level, "".join(paths[level])) for level in sorted(paths)),
        description=describe(recorded),
    )


def describe(recorded: MismatchMap) -> str:
    """Describe the map in words: the share of wrong elements, the axes, and the number of cells with any."""
    everything = "".join(recorded.cells)
    touched = sum(digit != "0" for digit in everything)
    full = everything.count("9")
    share = 100 * recorded.wrong / recorded.total
    rows, columns = recorded.axes
    return (
        f"{recorded.wrong:,} of {recorded.total:,} elements are wrong ({share:.3g} %). "
        f"Rows are {rows}, columns are {columns}. {touched:,} of {len(everything):,} cells hold wrong "
        f"elements, {full:,} of them nothing else."
    )
