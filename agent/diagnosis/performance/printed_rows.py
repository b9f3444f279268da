"""The rows of the tables that a profiler prints, among lines of its own and of the program's.

The program may print what looks like such a table, or like none: nothing here raises.
"""

import csv
from collections.abc import Iterator

LONGEST = 20_000
"""Characters of a line that may be a row."""
_DIGITS = 15


def rows(text: str) -> Iterator[list[str]]:
    """The cells of every line that begins with a quoted one."""
    for line in text.splitlines():
        if line.startswith('"') and len(line) <= LONGEST:
            try:
                yield next(csv.reader([line]))
            except (csv.Error, StopIteration):
                continue


def whole(cell: str) -> int | None:
    """The number in a cell, where there is one."""
    digits = cell.replace(",", "")
    return int(digits) if digits.isdecimal() and len(digits) <= _DIGITS else None
