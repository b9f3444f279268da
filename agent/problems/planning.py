"""Smaller sizes for a reference that keep what matters about the real ones.

Contract: pure search over numbers and traces; nothing of a reference runs here. How far a dimension may go,
and when, depends on what it is (`roles`): a batch first, to 2 or 3; then space and what is free; what is
reduced over next, above 1024 as long as that is affordable; what the constructor is given last. Sizes keep
their remainder modulo 32, or modulo 16, 8 or 4 where no other sizes are affordable. A proposal counts only if
its trace does the same work (`form`). The same reference always gives the same sizes: proposals are counted,
not timed.
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
"""Of one search; the best sizes seen by then are taken."""
WORTH = 0.95
"""A step that leaves more of the cost than this is not worth taking."""


class Limits(Record):
    """What a run may cost."""

    max_elements: PositiveInt
    """Elements of the largest step: all inputs, parameters and outputs, or what one operator touches."""
    max_macs: PositiveInt
    """Multiply-accumulates of all products and convolutions."""


class Cost(NamedTuple):
    """What one run of the reference takes; see Limits for the units."""

    elements: int
    macs: int

    def within(self, limits: Limits) -> bool:
        return self.elements <= limits.max_elements and self.macs <= limits.max_macs

    def below(self, other: "Cost") -> bool:
        """No part is more and one is less."""
        return self != other and self.elements <= other.elements and self.macs <= other.macs

    def share(self, limits: Limits) -> float:
        """How much of the limits is used: 1 where the tighter one is reached."""
        return max(self.elements / limits.max_elements, self.macs / limits.max_macs)


Values = tuple[int, ...]
"""The value of each dimension, in their order."""
Judged = Callable[[Values, Level], Cost | None]
"""What a run at these values costs; None where it does not do what is the same work at a level."""


class Found(NamedTuple):
    """Sizes to judge at."""

    values: Values
    cost: Cost
    level: Level


FULL_PROTOCOL = Limits(max_elements=1_200_000, max_macs=60_000_000)
"""What sizes are looked for at: a product with barriers then takes about a second per run on the emulator."""
FEWER_DRAWS = Limits(max_elements=2 * 1_200_000, max_macs=2 * 60_000_000)
"""Sizes that cost more are judged on fewer draws."""
ONCE = Limits(max_elements=20_000_000, max_macs=100_000_000)
"""Real sizes up to which one run is made at them after smaller ones were judged."""
DEAREST = Limits(max_elements=32_000_000, max_macs=400_000_000)
"""What costs more is not judged on a CPU."""


def cost(trace: Trace) -> Cost:
    """Elements and multiply-accumulates of one forward."""
    ends = [spec for spec in (*trace.inputs, *trace.state, *trace.outputs) if isinstance(spec, TensorSpec)]
    steps = [sum(spec.elements for spec in (*op.inputs, *op.outputs)) for op in trace.operations if op.bytes]
    return Cost(max(sum(spec.elements for spec in ends), *steps, 0), sum(map(macs, trace.operations)))


def affordable(trace: Trace) -> bool:
    """Whether a CPU can afford a reference of these sizes a few times over."""
    return trace.min_bytes // 4 <= DEAREST.max_elements and trace.flops // 2 <= DEAREST.max_macs


def once(trace: Trace) -> bool:
    """Whether a single run at these sizes is affordable beside the draws at smaller ones."""
    return cost(trace).within(ONCE)


def few_draws(trace: Trace) -> bool:
    """Whether a run at these sizes costs so much that there are fewer of them."""
    return not cost(trace).within(FEWER_DRAWS)


class Search:
    """Sizes for one reference; what was judged once is remembered across searches."""

    def __init__(self, dimensions: tuple[Dimension, ...], judged: Judged) -> None:
        self.dimensions = dimensions
        self._judged = judged
        self._left = MAX_PROPOSALS
        self.windowed = any(dimension.space for dimension in dimensions)

    def run(self, limits: Limits, levels: tuple[Level, ...], start: Values | None = None) -> Found | None:
        """Sizes within `limits` at the first of `levels` that has such; None where none has."""
        self._left = MAX_PROPOSALS
        values = start or tuple(dimension.value for dimension in self.dimensions)
        first: Values | None = None
        last = levels[0].last
        for level in levels:
            if first is not None and level.last is not last:
                # The constructor's sizes go before the others' remainders do.
                values = first
            found = self._descended(values, limits, level)
            if found is not None:
                if found.cost.within(limits):
                    return found
                values, last, first = found.values, level.last, first or found.values
        return None

    def _descended(self, values: Values, limits: Limits, level: Level) -> Found | None:
        """Steps down until a run fits or no step is left at this level."""
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
        """As large a batch as fits: what went down after it may have left room."""
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
        """Space at its least, then the batch: windows make each element of them dear."""
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
        """Proposals that run and cost less than `now`, those of the earliest roles first."""
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
        """Whether a step saves enough, or may do so where it could not be seen."""
        return seen is None or seen.within(limits) or seen.share(limits) <= WORTH * now.share(limits)

    def _in_order(self, values: Values, level: Level) -> list[int]:
        wanted = [p for p, dimension in enumerate(self.dimensions) if dimension.role <= level.last]
        return sorted(wanted, key=lambda p: (_turn(self.dimensions[p].role), -values[p], p))

    def _with_partners(self, values: Values, place: int, lower: int, level: Level) -> Values:
        """With the constructor sizes that divide this one brought down too: groups follow their channels."""
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
        """Sizes of a role that differ stay different; constructor sizes that divide one another still do.

        The latter not where dimensions may become alike.
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
        """The sum of what should go last: of two proposals the one that keeps more of it is better."""
        pairs = zip(self.dimensions, values, strict=True)
        return sum(used for d, used in pairs if d.role >= Role.REDUCED)


def _with(values: Values, place: int, new: int) -> Values:
    return (*values[:place], new, *values[place + 1 :])


def _turn(role: Role) -> Role:
    """Space and what is free go down together, the larger first."""
    return Role.FREE if role is Role.SPACE else role
