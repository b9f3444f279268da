"""Schedule of a kernel on a GPU: a few numbers, set by rule or measured to be fastest."""

from collections.abc import Mapping
from typing import NamedTuple

from agent.compose.dims import Dim


class Schedule(NamedTuple):
    """Launch and unrolling numbers of one kernel."""

    threads: int = 1 << 8
    """Threads per block, a power of two."""
    unroll: int = 4
    """Steps of a row's loop whose reads are issued together."""
    vectors: int = 1
    """Groups of neighbours per thread whose reads are issued together, in a kernel without rows."""

    def changed(self, change: Mapping[str, int]) -> "Schedule":
        """Return the schedule with some numbers multiplied by 2 ** n, within LIMITS."""
        made = {name: int(value * 2 ** change.get(name, 0)) for name, value in self._asdict().items()}
        return Schedule(*(max(least, min(most, made[name])) for name, (least, most) in LIMITS.items()))


LIMITS = {"threads": (32, 1 << 10), "unroll": (1, 16), "vectors": (1, 16)}
"""Minimum and maximum of each number."""
FEW_ROWS, LONG_ROW = 132, 4096
"""Number of rows below which a GPU has more processors than rows, and the elements of a long row. Such a row
gets as many threads as possible."""


def by_rule(rows: Dim | None, inner: Dim) -> Schedule:
    """Return the schedule for `rows` rows of `inner` elements. `rows` is None for a kernel without rows."""
    few = rows is not None and rows[0] < FEW_ROWS and inner[0] >= LONG_ROW
    return Schedule(threads=1 << 10) if few else Schedule()
