"""Coarse map of the wrong elements of an output, which the judge counts without code of the candidate."""

from typing import Annotated

from pydantic import Field

from agent.records.base import Record

MOST_CELLS = 48
"""Maximum number of cells along each axis. This shows a tile or a border, in under 3 KB of a transcript."""


class Axis(Record):
    """One axis of the map. The indices 0 to size - 1 are divided among the cells in equal parts."""

    name: str
    """Meaning of the index: a dimension such as `dim 1`, or part of a flat index such as `index // 64`."""
    size: int = Field(ge=1)

    def __str__(self) -> str:
        return f"{self.name} (0..{self.size - 1})"


class MismatchMap(Record):
    """Share of wrong elements over two axes of one output, taken over all its other axes."""

    output: int = 0
    """Index of the output, counted from 0."""
    shape: tuple[int, ...]
    axes: tuple[Axis, Axis]
    """Axis along the rows of the map, and axis along its columns."""
    cells: tuple[Annotated[str, Field(pattern=r"^[0-9]{1,48}$")], ...] = Field(max_length=MOST_CELLS)
    """One string per row of the map, with one digit per cell. 0: no element is wrong. 1 to 8: up to that many
    eighths are wrong. 9: all are wrong."""
    wrong: int = Field(ge=1)
    """Number of elements outside their tolerance in the whole output."""
    total: int = Field(ge=1)
