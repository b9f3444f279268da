"""A reference at smaller sizes: the smallest that a search finds, with their source and their trace.

This module combines the places of sizes (`sizes`), their roles (`roles`) and the search (`planning`).
`attempt` traces a changed source and returns None if the reference does not run on it. No other code of a
reference runs here.
"""

from collections.abc import Callable, Iterator

from agent.problems.form import same_operators, same_work
from agent.problems.levels import BY_DEFAULTS, LEVELS, LOOSE, Level
from agent.problems.planning import LARGE, ONCE, Cost, Found, Limits, Search, Values, affordable, cost
from agent.problems.roles import Role, dimensions
from agent.problems.sizes import constructor_sizes, rewritten, sizes
from agent.records import Record, Trace

BETWEEN = Limits(max_elements=6_000_000, max_macs=150_000_000)
"""Cost limits between those of the full protocol and the most that a CPU can afford."""


class Plan(Record):
    """The source with new sizes, each size by name as (real, used), and its trace."""

    source: str
    sizes: dict[str, tuple[int, int]]
    trace: Trace
    modulus: int | None = None
    """Modulus of the remainder that each changed size except the batch keeps; None if nothing changed."""
    lost: tuple[str, ...] = ()
    """Properties of the real sizes that the new sizes lack, for the scope of a verdict."""
    large: "Plan | None" = None
    """Larger sizes for a few draws, if the real ones are too costly for a single draw."""


class Scaling:
    """The sizes of one reference. The constructor requests a few traces to learn each size's role."""

    def __init__(self, source: str, real: Trace, attempt: Callable[[str], Trace | None]) -> None:
        self._source, self._real, self._attempt = source, real, attempt
        self._traces: dict[str, Trace | None] = {source: real}
        found = sizes(source)
        self.dimensions = dimensions(
            found, constructor_sizes(source), real, lambda values: self._traced(rewritten(source, values))
        )
        self._search = Search(self.dimensions, self._judged)

    def least(self, *limits: Limits) -> Plan | None:
        """Return sizes within the first of `limits` that has any; None if there are none.

        If these searches find no sizes, dimensions may become equal, and then constructor defaults may
        change.
        """
        for levels in (LEVELS, LOOSE, BY_DEFAULTS):
            for bounds in limits:
                found = self._search.run(bounds, levels)
                if found is not None and affordable(self._trace(found.values)):
                    return self._plan(found).model_copy(update={"large": self._large(found)})
        return None

    def _large(self, found: Found) -> Plan | None:
        if cost(self._real).within(ONCE):
            return None
        values = self._search.enlarged(found.values, LARGE, found.level)
        return self._plan(found._replace(values=values)) if values else None

    def _judged(self, values: Values, level: Level) -> Cost | None:
        seen = self._traced(self._changed(values))
        if seen is None or not same_work(self._real, seen, rests=level.rests, extents=level.extents):
            return None
        return cost(seen)

    def _plan(self, found: Found) -> Plan:
        changed = any(d.value != used for d, used in zip(self.dimensions, found.values, strict=True))
        return Plan(
            source=self._changed(found.values),
            sizes={
                name: (real, dimension.sizes(used)[name])
                for dimension, used in zip(self.dimensions, found.values, strict=True)
                for name, real in dimension.sizes(dimension.value).items()
            },
            trace=self._trace(found.values),
            modulus=self._modulus(found) if changed else None,
            lost=tuple(self._lost(self._trace(found.values))),
        )

    def _lost(self, used: Trace) -> Iterator[str]:
        if not same_work(self._real, used, rests=True, extents=False):
            yield "a window that leaves elements over at the end of its input"
        if not same_work(self._real, used, rests=False, extents=True):
            yield "dimensions that differ at the real sizes, or are more than 1 there"

    def _modulus(self, found: Found) -> int:
        """Return the largest modulus that all sizes keep: the level's or a multiple of it."""
        moved = [
            real - dimension.sizes(used)[name]
            for dimension, used in zip(self.dimensions, found.values, strict=True)
            for name, real in dimension.sizes(dimension.value).items()
            if dimension.role is not Role.BATCH
        ]
        return next(m for m in (32, 16, 8, found.level.modulus) if all(by % m == 0 for by in moved))

    def _changed(self, values: Values) -> str:
        return rewritten(
            self._source,
            {
                name: size
                for dimension, used in zip(self.dimensions, values, strict=True)
                for name, size in dimension.sizes(used).items()
            },
        )

    def _trace(self, values: Values) -> Trace:
        seen = self._traced(self._changed(values))
        if seen is None:
            raise ValueError(f"sizes {values} were chosen and do not run")
        return seen

    def _traced(self, changed: str) -> Trace | None:
        if changed not in self._traces:
            seen = self._attempt(changed)
            self._traces[changed] = seen if seen is not None and same_operators(self._real, seen) else None
        return self._traces[changed]
