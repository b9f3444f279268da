"""Tables whose cells stay whole: a row that does not fit the terminal is written over several lines.

A wrapped name cannot be copied or searched for, so no cell is ever broken inside a word.
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
    """The rows in aligned columns where all of them fit `width`, else each with its cells below its first.

    `right`: indices of the columns that are aligned at the right. A word that is longer than `width`
    goes over it.
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
    """The line over several where it does not fit `width`, those after the first behind the indent.

    A word that is longer goes over it.
    """
    return textwrap.wrap(
        line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _aligned(row: Sequence[str], widths: Sequence[int], right: Sequence[int]) -> str:
    cells = []
    for column, (cell, wide) in enumerate(zip(row, widths, strict=True)):
        room = " " * (wide - cell_len(cell))
        cells.append(room + cell if column in right else cell + room)
    return _GAP.join(cells).rstrip()
