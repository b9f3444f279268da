"""How a kernel is cut for a GPU: a few numbers for each, by rule or as they were measured to be fastest."""

from collections.abc import Mapping
from typing import NamedTuple

from agent.compose.dims import Dim


class Schedule(NamedTuple):
    """Of one kernel."""

    threads: int = 1 << 8
    """Of a block, a power of two."""
    unroll: int = 4
    """Steps of a row's loop whose reads are begun together."""
    vectors: int = 1
    """Without rows: groups of neighbours that a thread takes, whose reads are begun together."""

    def changed(self, change: Mapping[str, int]) -> "Schedule":
        """With a factor of 2 ** n for some of the numbers, as far as a GPU takes it."""
        made = {name: int(value * 2 ** change.get(name, 0)) for name, value in self._asdict().items()}
        return Schedule(*(max(least, min(most, made[name])) for name, (least, most) in LIMITS.items()))


LIMITS = {"threads": (32, 1 << 10), "unroll": (1, 16), "vectors": (1, 16)}
"""Of each number, the least and the most."""
FEW_ROWS, LONG_ROW = 132, 4096
"""Fewer rows than a GPU has processors, of so many elements: each is as many threads' work as can be."""


def by_rule(rows: Dim | None, inner: Dim) -> Schedule:
    """Of a kernel over so many rows of `inner` elements; over elements alone where `rows` is None."""
    few = rows is not None and rows[0] < FEW_ROWS and inner[0] >= LONG_ROW
    return Schedule(threads=1 << 10) if few else Schedule()
