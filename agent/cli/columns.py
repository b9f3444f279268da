"""Tables that never break a cell inside a word, because a broken name cannot be copied or searched for.

If a row does not fit the terminal, its cells are written below each other.
"""

import textwrap
from collections.abc import Iterator, Sequence

from rich.cells import cell_len

from agent.cli.runs_table import Line

_GAP = "  "
_INDENT = "    "


def lines(
    heading: Sequence[str], rows: Sequence[Sequence[str]], width: int, right: Sequence[int] = ()
) -> Iterator[Line]:
    """Yield the rows in aligned columns if all fit `width`, otherwise each row's cells below its first cell.

    `right` holds the indices of right-aligned columns. A word longer than `width` exceeds it.
    """
    widths = [max(cell_len(row[column]) for row in (heading, *rows)) for column in range(len(heading))]
    if sum(widths) + len(_GAP) * (len(widths) - 1) <= width:
        yield [(_aligned(heading, widths, right), "bold")]
        for row in rows:
            yield [(_aligned(row, widths, right), "")]
        return
    for row in rows:
        yield [(row[0], "bold")]
        for name, cell in zip(heading[1:], row[1:], strict=True):
            for line in folded(f"{_INDENT}{name}: {cell}", width, _INDENT * 2):
                yield [(line, "")]


def folded(line: str, width: int, indent: str) -> list[str]:
    """Wrap a line to `width`. Lines after the first start with `indent`; a longer word exceeds the width."""
    return textwrap.wrap(
        line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _aligned(row: Sequence[str], widths: Sequence[int], right: Sequence[int]) -> str:
    cells = []
    for column, (cell, wide) in enumerate(zip(row, widths, strict=True)):
        room = " " * (wide - cell_len(cell))
        cells.append(room + cell if column in right else cell + room)
    return _GAP.join(cells).rstrip()
