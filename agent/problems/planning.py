"""Search for smaller sizes of a reference that keep the important properties of the real ones.

A pure search over numbers and traces; no code of a reference runs here. A dimension's role (`roles`) decides
when and how far it may shrink. The batch goes first, to 2 or 3, then space and free dimensions. Reductions
follow, staying above 1024 while that is affordable, and constructor arguments come last. Sizes keep their
remainder modulo 32, or modulo 16, 8 or 4 if no other sizes are affordable. A proposal counts only if its
trace does the same work (`form`). The same reference always gives the same sizes: proposals are counted, not
timed.
"""

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import NamedTuple

from pydantic import PositiveInt

from agent.problems.form import macs
from agent.problems.levels import Level, lower_values
from agent.problems.roles import Dimension, Role
from agent.records import Record, TensorSpec, Trace

MAX_PROPOSALS = 400
"""Maximum proposals of one search, which then returns the best sizes seen."""
WORTH = 0.95
"""Maximum share of the cost that a step may leave to be worth taking."""


class Limits(Record):
    """Maximum cost of one run of a reference on a CPU."""

    max_elements: PositiveInt
    """Maximum elements of a step: all inputs, parameters and outputs, or one operator's operands and results.
    """
    max_macs: PositiveInt
    """Maximum multiply-accumulates of all products and convolutions together."""


class Cost(NamedTuple):
    """Cost of one run of the reference; see Limits for the units."""

    elements: int
    macs: int

    def within(self, limits: Limits) -> bool:
        return self.elements <= limits.max_elements and self.macs <= limits.max_macs

    def below(self, other: "Cost") -> bool:
        """Return True if neither elements nor multiply-accumulates are more and at least one is less."""
        return self != other and self.elements <= other.elements and self.macs <= other.macs

    def share(self, limits: Limits) -> float:
        """Return the used share of the limits: 1 if the tighter limit is reached."""
        return max(self.elements / limits.max_elements, self.macs / limits.max_macs)


Values = tuple[int, ...]
"""Proposed size of each dimension, in the order of `Search.dimensions`."""
Judged = Callable[[Values, Level], Cost | None]
"""Function that returns the cost at these values; None if the run does not do the same work at a level."""


class Found(NamedTuple):
    """Sizes to judge at, with their cost and level."""

    values: Values
    cost: Cost
    level: Level


FULL_PROTOCOL = Limits(max_elements=1_200_000, max_macs=60_000_000)
"""Target cost of a search: a product with barriers then takes about a second per run on the emulator."""
FEWER_DRAWS = Limits(max_elements=2 * 1_200_000, max_macs=2 * 60_000_000)
"""Cost above which sizes are judged on fewer draws."""
ONCE = Limits(max_elements=20_000_000, max_macs=100_000_000)
"""Maximum cost of real sizes that get one run after smaller sizes were judged."""
LARGE = Limits(max_elements=10_000_000, max_macs=60_000_000)
"""Maximum cost of the largest sizes that are judged where the real ones cost more than ONCE."""
DEAREST = Limits(max_elements=32_000_000, max_macs=400_000_000)
"""Maximum cost that is judged on a CPU."""


def cost(trace: Trace) -> Cost:
    """Return the elements and multiply-accumulates of one forward."""
    ends = [spec for spec in (*trace.inputs, *trace.state, *trace.outputs) if isinstance(spec, TensorSpec)]
    steps = [sum(spec.elements for spec in (*op.inputs, *op.outputs)) for op in trace.operations if op.bytes]
    return Cost(max(sum(spec.elements for spec in ends), *steps, 0), sum(map(macs, trace.operations)))


def affordable(trace: Trace) -> bool:
    """Return True if a CPU can afford several runs of a reference of these sizes."""
    return trace.min_bytes // 4 <= DEAREST.max_elements and trace.flops // 2 <= DEAREST.max_macs


def once(trace: Trace) -> bool:
    """Return True if a single run at these sizes is affordable in addition to draws at smaller ones."""
    return cost(trace).within(ONCE)


def few_draws(trace: Trace) -> bool:
    """Return True if a run at these sizes costs so much that fewer draws are made."""
    return not cost(trace).within(FEWER_DRAWS)


class Search:
    """Search for the smallest affordable sizes of one reference."""

    def __init__(self, dimensions: tuple[Dimension, ...], judged: Judged) -> None:
        self.dimensions = dimensions
        self._judged = judged
        self._left = MAX_PROPOSALS
        self.windowed = any(dimension.space for dimension in dimensions)

    def run(self, limits: Limits, levels: tuple[Level, ...], start: Values | None = None) -> Found | None:
        """Return sizes within `limits` at the first of `levels` that has any; None if none has."""
        self._left = MAX_PROPOSALS
        values = start or tuple(dimension.value for dimension in self.dimensions)
        first: Values | None = None
        last = levels[0].last
        for level in levels:
            if first is not None and level.last is not last:
                # Shrink constructor sizes before giving up remainders of the other sizes.
                values = first
            found = self._descended(values, limits, level)
            if found is not None:
                if found.cost.within(limits):
                    return found
                values, last, first = found.values, level.last, first or found.values
        return None

    def enlarged(self, start: Values, limits: Limits, level: Level) -> Values | None:
        """Return `start` with its larger dimensions as near to their real values as `limits` allow.

        The dimension with the largest real value grows first. Constructor sizes stay. Returns None if nothing
        grows to at least twice its size.
        """
        self._left = MAX_PROPOSALS
        values = start
        order = sorted(range(len(start)), key=lambda place: -self.dimensions[place].value)
        for place in order:
            dimension = self.dimensions[place]
            if dimension.role >= Role.CONSTRUCTOR or dimension.value < 2 * start[place]:
                continue
            for more in (dimension.value, *sorted(lower_values(dimension, dimension.value, level))[::-1]):
                seen = self._asked(_with(values, place, more), level) if more > values[place] else None
                if seen is not None and seen.within(limits):
                    values = _with(values, place, more)
                    break
        grown = any(value >= 2 * small for value, small in zip(values, start, strict=True))
        return values if grown else None

    def _descended(self, values: Values, limits: Limits, level: Level) -> Found | None:
        """Step down until a run fits or no step is left at this level."""
        now = self._judged(values, level)
        if now is None:
            return None
        if self.windowed and not now.within(limits):
            values, now = self._least(values, now, level)
        while not now.within(limits):
            steps = self._cheaper(values, now, limits, level)
            step = next(steps, None)
            if step is None:
                break
            if step[0].within(limits):
                fitting = [step, *(other for other in steps if other[0].within(limits))]
                step = max(fitting, key=lambda s: (round(s[0].share(limits), 1), self._kept(s[1])))
            now, values = step
        if now.within(limits) and not self.windowed:
            values, now = self._more_samples(values, now, limits, level)
        return Found(values, now, level)

    def _more_samples(self, values: Values, now: Cost, limits: Limits, level: Level) -> tuple[Values, Cost]:
        """Enlarge the batch as far as the limits allow, since later steps may have left room."""
        for place, dimension in enumerate(self.dimensions):
            if dimension.role is Role.BATCH:
                more = lower_values(dimension, dimension.value, level)
                for batch in sorted((v for v in more if v > values[place]), reverse=True):
                    proposal = _with(values, place, batch)
                    seen = self._asked(proposal, level)
                    if seen is not None and seen.within(limits):
                        return proposal, seen
        return values, now

    def _least(self, values: Values, now: Cost, level: Level) -> tuple[Values, Cost]:
        """Reduce space to its minimum, then the batch, because windows make each of their elements costly."""
        for role in (Role.SPACE, Role.BATCH):
            for place, dimension in enumerate(self.dimensions):
                if dimension.role is role:
                    for lower in sorted(lower_values(dimension, values[place], level)):
                        proposal = _with(values, place, lower)
                        seen = self._asked(proposal, level)
                        if seen is not None and seen.below(now):
                            values, now = proposal, seen
                            break
        return values, now

    def _asked(self, values: Values, level: Level) -> Cost | None:
        if self._left <= 0 or not self._admissible(values, level):
            return None
        self._left -= 1
        return self._judged(values, level)

    def _cheaper(
        self, values: Values, now: Cost, limits: Limits, level: Level
    ) -> Iterator[tuple[Cost, Values]]:
        """Yield proposals that run and cost less than `now`, of the earliest roles only."""
        turn: Role | None = None
        for place in self._in_order(values, level):
            mine = _turn(self.dimensions[place].role)
            if turn is not None and mine is not turn:
                return
            lowers = lower_values(self.dimensions[place], values[place], level)
            if lowers and not self._worth(self._asked(_with(values, place, min(lowers)), level), now, limits):
                continue
            for lower in lowers:
                single = _with(values, place, lower)
                together = self._with_partners(values, place, lower, level)
                for proposal in dict.fromkeys((together, single)):
                    seen = self._asked(proposal, level)
                    if seen is not None and seen.below(now) and self._worth(seen, now, limits):
                        turn = mine
                        yield seen, proposal

    def _worth(self, seen: Cost | None, now: Cost, limits: Limits) -> bool:
        """Return True if a step saves enough of the cost, or if its cost is unknown."""
        return seen is None or seen.within(limits) or seen.share(limits) <= WORTH * now.share(limits)

    def _in_order(self, values: Values, level: Level) -> list[int]:
        wanted = [p for p, dimension in enumerate(self.dimensions) if dimension.role <= level.last]
        return sorted(wanted, key=lambda p: (_turn(self.dimensions[p].role), -values[p], p))

    def _with_partners(self, values: Values, place: int, lower: int, level: Level) -> Values:
        """Set a value and scale down constructor sizes that divide it: groups follow their channels."""
        if self.dimensions[place].role < Role.CONSTRUCTOR:
            return _with(values, place, lower)
        changed = _with(values, place, lower)
        for other, dimension in enumerate(self.dimensions):
            divides = values[place] % values[other] == 0 and values[place] > values[other]
            if dimension.role >= Role.CONSTRUCTOR and other != place and divides:
                wanted = values[other] * lower // values[place]
                fitting = [v for v in lower_values(dimension, values[other], level) if v <= wanted]
                changed = _with(changed, other, fitting[0]) if fitting else changed
        return changed

    def _admissible(self, values: Values, level: Level) -> bool:
        """Return True if different sizes of a role stay different and constructor sizes still divide others.

        Divisibility is not required if the level lets dimensions become equal.
        """
        pairs = list(zip(self.dimensions, values, strict=True))
        for (one, used), (other, also) in combinations(pairs, 2):
            if used == also and one.value != other.value and one.role is other.role:
                return False
        if not level.extents:
            return True
        given = [(d.value, used) for d, used in pairs if d.role >= Role.CONSTRUCTOR]
        return all(
            large_used % small_used == 0 and large_used >= 2 * small_used
            for large, large_used in given
            for small, small_used in given
            if large > small > 1 and large % small == 0
        )

    def _kept(self, values: Values) -> int:
        """Return the sum of sizes that should shrink last; a proposal that keeps more of it is better."""
        pairs = zip(self.dimensions, values, strict=True)
        return sum(used for d, used in pairs if d.role >= Role.REDUCED)


def _with(values: Values, place: int, new: int) -> Values:
    return (*values[:place], new, *values[place + 1 :])


def _turn(role: Role) -> Role:
    """Return the turn of a role: space and free dimensions shrink together, the larger first."""
    return Role.FREE if role is Role.SPACE else role
