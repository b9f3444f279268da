"""Lines of a kernel at which its warps wait, and the reasons, as sampled by NVIDIA's profiler.

The input is the source page of `ncu --csv --page source --print-source cuda,sass` for code with line numbers.
For each file the page holds a table with a row for each line, each followed by the rows of its instructions.
The text of a line comes from the candidate's source, never from the page.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from agent.diagnosis.performance.printed_rows import rows, whole

_FILE, _LINE, _ADDRESS = "File Path", "Line No", "Address"
_SAMPLES = "stall_"
_READY = {"selected", "not_selected"}
"""Reasons in samples of warps that do not wait: the warp that issues, and warps that could issue."""
_WAITS = {
    "barrier": "a barrier",
    "branch_resolving": "a branch",
    "dispatch": "the dispatcher",
    "drain": "its last stores",
    "imc": "constants",
    "lg": "room in the queue of global memory",
    "long_sb": "global memory",
    "math": "arithmetic units",
    "membar": "a memory fence",
    "mio": "room in the queue of shared memory",
    "no_inst": "instructions to be fetched",
    "short_sb": "shared memory or a special function",
    "wait": "the instruction before",
}
MOST = 4
LEAST = 0.05
"""Minimum share of all waiting for a line to be shown."""
_SHOWN = 90


class Waiting(NamedTuple):
    """Share of a kernel's waiting at one line of the candidate."""

    line: int
    share: float
    """Share of all samples of waiting warps, including those in other files."""
    reason: str
    code: str

    def __str__(self) -> str:
        return f"line {self.line}, {self.share:.0%}, mostly for {self.reason}: {self.code}"


def parsed(text: str, file: str, source: str) -> tuple[Waiting, ...]:
    """Return the lines of `file` at which warps wait longest, over all launches printed.

    `source` is the text of `file`.
    """
    found: Counter[tuple[int, str]] = Counter()
    waited = 0
    columns: list[str] = []
    is_own = False
    for cells in rows(text):
        if cells[0] == _FILE:
            is_own, columns = cells[-1].rsplit("/", 1)[-1] == file, []
        elif cells[0] == _LINE:
            columns = cells
        elif len(cells) == len(columns):
            for line, reason, count in _samples(columns, cells):
                waited += count
                if is_own:
                    found[line, reason] += count
    return tuple(_longest(found, waited, source.split("\n")))


def _samples(columns: Sequence[str], cells: Sequence[str]) -> Iterator[tuple[int, str, int]]:
    """Yield line, reason and sample count of a row for a line; instruction rows only repeat them."""
    row = dict(zip(columns, cells, strict=True))
    line = whole(row[_LINE])
    if row.get(_ADDRESS) != "-" or line is None:
        return
    for name, cell in row.items():
        reason, count = name.removeprefix(_SAMPLES), whole(cell)
        # Columns with a suffix in brackets hold warps that could not issue; their samples are counted
        # already.
        if name.startswith(_SAMPLES) and reason.isidentifier() and reason not in _READY and count:
            yield line, reason, count


def _longest(found: Counter[tuple[int, str]], waited: int, lines: Sequence[str]) -> Iterator[Waiting]:
    by_line: Counter[int] = Counter()
    for (line, _), count in found.items():
        by_line[line] += count
    for line, count in by_line.most_common(MOST):
        if count < LEAST * waited or not 0 < line <= len(lines):
            continue
        reason = max((key for key in found if key[0] == line), key=lambda key: found[key])[1]
        code = lines[line - 1].strip()[:_SHOWN]
        yield Waiting(line, count / waited, _WAITS.get(reason, reason), code)
