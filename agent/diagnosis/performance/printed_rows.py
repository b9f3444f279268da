"""Parser for the tables that a profiler prints among its own and the program's lines.

The program may print lines that resemble such a table or are malformed, so no function here raises.
"""

import csv
from collections.abc import Iterator

LONGEST = 20_000
"""Maximum number of characters of a row."""
_DIGITS = 15


def rows(text: str) -> Iterator[list[str]]:
    """Yield the cells of every line that begins with a quoted cell."""
    for line in text.splitlines():
        if line.startswith('"') and len(line) <= LONGEST:
            try:
                yield next(csv.reader([line]))
            except (csv.Error, StopIteration):
                continue


def whole(cell: str) -> int | None:
    """Return the integer in a cell, or None."""
    digits = cell.replace(",", "")
    return int(digits) if digits.isdecimal() and len(digits) <= _DIGITS else None
