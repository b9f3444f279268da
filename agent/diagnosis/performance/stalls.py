"""At which lines of a kernel its warps wait, and for what, as NVIDIA's profiler sampled them.

Reads the source page that `ncu --csv --page source --print-source cuda,sass` prints for code with line
numbers: for each file a table with a row for each line, followed by a row for each of its instructions. The
text of a line is the candidate's own, never the page's.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from agent.diagnosis.performance.printed_rows import rows, whole

_FILE, _LINE, _ADDRESS = "File Path", "Line No", "Address"
_SAMPLES = "stall_"
_READY = {"selected", "not_selected"}
"""Samples of warps that wait for nothing: one issues, the others could."""
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
"""Share of all waiting below which a line is not shown."""
_SHOWN = 90


class Waiting(NamedTuple):
    """How much of a kernel's waiting is at one line of the candidate."""

    line: int
    share: float
    """Of all samples of warps that waited, in other files too."""
    reason: str
    code: str

    def __str__(self) -> str:
        return f"line {self.line}, {self.share:.0%}, mostly for {self.reason}: {self.code}"


def parsed(text: str, file: str, source: str) -> tuple[Waiting, ...]:
    """The lines of `file`, whose text is `source`, where warps wait longest; over all launches printed."""
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
    """Line, reason and number of samples of a row for a line; the rows of its instructions repeat it."""
    row = dict(zip(columns, cells, strict=True))
    line = whole(row[_LINE])
    if row.get(_ADDRESS) != "-" or line is None:
        return
    for name, cell in row.items():
        reason, count = name.removeprefix(_SAMPLES), whole(cell)
        # The columns of warps that could not issue have words in brackets behind, and count some of these.
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
