"""Unified diff between the sources of two attempts, for `agent show RUN --diff A B`."""

from collections.abc import Iterator, Sequence

from agent.cli import console
from agent.cli.runs_table import Line
from agent.cli.verdicts import brief
from agent.errors import UsageError
from agent.records import Attempt
from agent.store import history

_SIGNS = {"same": " ", "added": "+", "removed": "-"}
_STYLES = {"added": "green", "removed": "red", "same": ""}


def lines(old: Attempt, new: Attempt, address: str) -> Iterator[Line]:
    """Yield the diff below headings that name the attempts. Equal sources give only the headings.

    Raises UsageError if a source is too long to compare.
    """
    compared = compare(old, new)
    yield [(f"--- {console.line(address)}:{old.number}  {brief(old)}", "bold")]
    yield [(f"+++ {console.line(address)}:{new.number}  {brief(new)}", "bold")]
    for hunk in _hunks(compared):
        yield [(_place(hunk), "cyan")]
        for line in hunk:
            # A form feed or similar inside a line must not split the line of the diff.
            text = " ".join(console.readable(line.text).splitlines())
            yield [(f"{_SIGNS[line.kind]}{text}", _STYLES[line.kind])]


def compare(old: Attempt, new: Attempt) -> tuple[history.DiffLine, ...]:
    """Return the differing lines with their context. Raises UsageError if a source is too long."""
    compared = history.diff(old.candidate.source, new.candidate.source)
    if compared is None:
        raise UsageError(
            f"attempts {old.number} and {new.number} cannot be compared: one has more than "
            f"{history.COMPARED_LINES} lines; --json prints both sources"
        )
    return compared


def _hunks(compared: Sequence[history.DiffLine]) -> Iterator[list[history.DiffLine]]:
    hunk: list[history.DiffLine] = []
    for line in compared:
        if line.kind != "gap":
            hunk.append(line)
        elif hunk:
            yield hunk
            hunk = []
    if hunk:
        yield hunk


def _place(hunk: Sequence[history.DiffLine]) -> str:
    """Return a hunk header such as `@@ -12,7 +12,9 @@`. A side without lines starts at 0, as in diff -u."""
    old = [line.old for line in hunk if line.old is not None]
    new = [line.new for line in hunk if line.new is not None]
    return f"@@ -{old[0] if old else 0},{len(old)} +{new[0] if new else 0},{len(new)} @@"
