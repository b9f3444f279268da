"""A problem at sizes that a CPU can afford.

Sizes shrink until a run is affordable on a CPU. `scaling` decides the role of each size, which sizes may
change and how far; this module applies it to a Problem. The real sizes stay if they are affordable or if
nothing may change. The outcome does not depend on how busy the machine is.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from math import prod

from agent.problems import child, literals
from agent.problems.form import group_size
from agent.problems.levels import SMALL
from agent.problems.planning import DEAREST, FULL_PROTOCOL, Limits, affordable, cost
from agent.problems.roles import LEAST_PROBED
from agent.problems.scaling import BETWEEN, Plan
from agent.problems.sizes import rewritten, sizes
from agent.records import Operation, Problem, Record, TensorSpec, Trace

MAX_ELEMENTS = FULL_PROTOCOL.max_elements
MAX_MACS = FULL_PROTOCOL.max_macs
TIME_LIMIT_S = 3600
"""Seconds after which a search has failed; it normally takes seconds."""


class Shrunken(Record):
    """The reference at the sizes to judge at."""

    source: str
    """Source of the reference, changed only in the numbers of its sizes."""
    sizes: dict[str, tuple[int, int]]
    """Sizes that are dimensions, by name (see `sizes.Size`): the real one and the one used."""
    trace: Trace
    full: bool
    """True if the sizes are the real ones."""
    fits: bool
    """False if these sizes still cost more than is affordable."""
    hard: tuple[int, ...]
    """Numbers that reveal the real sizes: the changed sizes, and products with them."""
    modulus: int | None = None
    """Modulus of the remainder that each changed size except the batch keeps; None if none changed."""
    lost: tuple[str, ...] = ()
    """Properties of the real sizes that the used sizes lack."""
    large: "Shrunken | None" = None
    """Larger sizes for a few draws, if the real ones are too costly for a single draw."""

    @property
    def changed(self) -> dict[str, tuple[int, int]]:
        return {name: (real, used) for name, (real, used) in self.sizes.items() if real != used}

    @property
    def hands_over_defaults(self) -> bool:
        """True if the constructor receives arguments that `get_init_inputs` leaves to their defaults."""
        return any(name.startswith("Model(") for name in self.changed)


def shrink(
    problem: Problem,
    *,
    max_elements: int = MAX_ELEMENTS,
    max_macs: int = MAX_MACS,
    time_limit_s: float = TIME_LIMIT_S,
) -> Shrunken:
    """Shrink the problem to `max_elements` in its largest step and `max_macs` multiply-accumulates.

    A problem that cannot shrink that far may cost more, up to what is affordable. If even that is impossible,
    the sizes are the real ones and `fits` is False. Starts at most one child process, and none if the real
    sizes fit. Raises as `load` does.
    """
    limits = Limits(max_elements=max_elements, max_macs=max_macs)
    real = Plan(
        source=problem.source,
        sizes={s.name: (s.value, s.value) for s in sizes(problem.source) if s.value >= LEAST_PROBED},
        trace=problem.trace,
    )
    found: Plan | None = None
    if real.sizes and not cost(problem.trace).within(limits):
        tiers = (limits, *(tier for tier in (BETWEEN, DEAREST) if tier.max_macs > limits.max_macs))
        found = child.plan(problem, tiers, time_limit_s)
    return _shrunken(problem, found or real)


def _shrunken(problem: Problem, plan: Plan) -> Shrunken:
    return Shrunken(
        source=plan.source,
        sizes=plan.sizes,
        trace=plan.trace,
        full=plan.source == problem.source,
        fits=affordable(plan.trace),
        hard=tuple(sorted(_betraying(plan.sizes, problem.trace, plan.trace))),
        modulus=plan.modulus,
        lost=plan.lost,
        large=plan.large and _shrunken(problem, plan.large),
    )


def at_sizes(problem: Problem, values: Mapping[str, int], trace: Trace) -> Shrunken:
    """Return the problem with its sizes as in `values`, by name; `trace` is its trace at these sizes."""
    used = {s.name: (s.value, values.get(s.name, s.value)) for s in sizes(problem.source)}
    return _shrunken(problem, Plan(source=rewritten(problem.source, values), sizes=used, trace=trace))


def hard_coded(candidate_source: str, shrunken: Shrunken) -> tuple[tuple[int, int], ...]:
    """Return the literals of a candidate that are real sizes, each with its line, in order of lines.

    Empty if the shrunken problem has its real sizes. The rule errs on the cautious side: see `literals`.
    """
    hard = set(shrunken.hard)
    found = {(value, line) for value, line in literals.integers(candidate_source) if value in hard}
    return tuple(sorted(found, key=lambda entry: (entry[1], entry[0])))


def _betraying(sizes: dict[str, tuple[int, int]], real: Trace, used: Trace) -> set[int]:
    changed = {before for before, after in sizes.values() if before != after}
    found = set(changed)
    for one, other in combinations(sizes.values(), 2):
        if one[0] in changed or other[0] in changed:
            found.add(one[0] * other[0])
    found |= {value * value for value in changed}
    for before, after in zip(_specs(real), _specs(used), strict=True):
        found |= set(_changed_products(before.shape, after.shape))
    found |= {
        extent
        for before, after in zip(real.operations, used.operations, strict=True)
        for extent in _changed_extents(before, after)
    }
    # Powers of two up to 32 are block and warp widths in any candidate, and numbers up to 4 can be anything.
    telling = {value for value in changed if value > 4 and value & (value - 1)}
    return {value for value in found if value > SMALL} | telling


def _changed_products(real: tuple[int, ...], used: tuple[int, ...]) -> Iterator[int]:
    """Yield products of neighbouring dimensions, single ones included, whose value has changed."""
    for first in range(len(real)):
        for last in range(first + 1, len(real) + 1):
            if prod(real[first:last]) != prod(used[first:last]):
                yield prod(real[first:last])


def _changed_extents(real: Operation, used: Operation) -> Iterator[int]:
    """Yield integer attributes that have changed, and the changed extent of one group of a group norm."""
    for name, value in real.attributes.items():
        yield from _changed_attribute(value, used.attributes[name])
    positions = real.attributes.get("HxW"), used.attributes.get("HxW")
    if isinstance(positions[0], int) and isinstance(positions[1], int):
        yield from _changed_attribute(group_size(real) * positions[0], group_size(used) * positions[1])


def _changed_attribute(real: object, used: object) -> Iterator[int]:
    if isinstance(real, list) and isinstance(used, list):
        for before, after in zip(real, used, strict=True):
            yield from _changed_attribute(before, after)
    elif type(real) is int and real != used:
        yield real


def _specs(trace: Trace) -> Iterable[TensorSpec]:
    ends = (*trace.inputs, *trace.state, *trace.outputs)
    yield from (spec for spec in ends if isinstance(spec, TensorSpec))
    for operation in trace.operations:
        yield from (*operation.inputs, *operation.outputs)
