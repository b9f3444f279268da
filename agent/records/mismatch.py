"""Coarse map of the wrong elements of an output. The judge counts them, and the candidate has no say."""

from typing import Annotated

from pydantic import Field

from agent.records.base import Record

MOST_CELLS = 48
"""Maximum cells along each axis. They show a tile or a border, and take under 3 KB in a transcript."""


class Axis(Record):
    """One axis of the picture; its indices 0 to size - 1 are dealt to the cells in equal parts."""

    name: str
    """`dim 1`, or how indices in the order of memory were folded."""
    size: int = Field(ge=1)

    def __str__(self) -> str:
        return f"{self.name} (0..{self.size - 1})"


class MismatchMap(Record):
    """Share of wrong elements over two axes of one output, the others taken together."""

    output: int = 0
    """Which of the outputs, counted from 0."""
    shape: tuple[int, ...]
    axes: tuple[Axis, Axis]
    """Rows and columns."""
    cells: tuple[Annotated[str, Field(pattern=r"^[0-9]{1,48}$")], ...] = Field(max_length=MOST_CELLS)
    """A row in each string, a cell in each digit: 0 none wrong, 1 to 8 up to that many eighths, 9 all."""
    wrong: int = Field(ge=1)
    """Elements outside the error budget in the whole output."""
    total: int = Field(ge=1)
