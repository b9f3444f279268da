"""A problem at sizes that a CPU can afford.

Contract: module-level sizes become smaller until a run is affordable on a CPU; the rules and the search are
in `planning`, here they meet a Problem. The real sizes stay where they are affordable or nothing may change.
"""

from collections.abc import Iterable, Iterator
from itertools import combinations
from math import prod

from agent.problems import child, literals
from agent.problems.planning import UNTOUCHED, Limits, cost, group_size
from agent.problems.sizes import module_sizes
from agent.records import Operation, Problem, Record, TensorSpec, Trace

MAX_ELEMENTS = 2_400_000
"""Default: group_norm at [16, 64, 32, 32], read and written once, is just within."""
MAX_MACS = 60_000_000
"""Default: a matrix product with barriers takes about a second per run on the emulator."""


class Shrunken(Record):
    """The reference at the sizes to judge at."""

    source: str
    """The reference; differs from the original only in the numbers of its sizes."""
    sizes: dict[str, tuple[int, int]]
    """Module-level sizes above 32 by name: the real one and the one used."""
    trace: Trace
    full: bool
    """True where the sizes are the real ones."""
    fits: bool
    """False where the sizes above still cost more than was asked for."""
    hard: tuple[int, ...]
    """Numbers above 32 that betray the real sizes: those that changed, and products with them."""


def shrink(
    problem: Problem,
    *,
    max_elements: int = MAX_ELEMENTS,
    max_macs: int = MAX_MACS,
    time_limit_s: float = 60,
) -> Shrunken:
    """The problem within a budget: `max_elements` in its largest step, `max_macs` multiply-accumulates.

    Starts at most one child process, and none where the real sizes fit. Raises as `load` does.
    """
    real = problem.trace
    limits = Limits(max_elements=max_elements, max_macs=max_macs, seconds=time_limit_s / 2)
    sizes = {size.name: (size.value, size.value) for size in module_sizes(problem.source)}
    sizes = {name: pair for name, pair in sizes.items() if pair[0] > UNTOUCHED}
    source, used = problem.source, real
    if sizes and not cost(real).within(limits):
        source, sizes, used = child.plan(problem.source, real, limits, problem.name, time_limit_s)
    return Shrunken(
        source=source,
        sizes=sizes,
        trace=used,
        full=source == problem.source,
        fits=cost(used).within(limits),
        hard=tuple(sorted(_betraying(sizes, real, used))),
    )


def hard_coded(candidate_source: str, shrunken: Shrunken) -> tuple[tuple[int, int], ...]:
    """The literals of a candidate that are real sizes, each with its line, in order of lines.

    Empty where the shrunken problem has its real sizes. The rule is on the cautious side: see `literals`.
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
    return {value for value in found if value > UNTOUCHED}


def _changed_products(real: tuple[int, ...], used: tuple[int, ...]) -> Iterator[int]:
    """Products of neighbouring dimensions, single ones included, that are another number now."""
    for first in range(len(real)):
        for last in range(first + 1, len(real) + 1):
            if prod(real[first:last]) != prod(used[first:last]):
                yield prod(real[first:last])


def _changed_extents(real: Operation, used: Operation) -> Iterator[int]:
    """Integer attributes that are another number now, and what one group of a group norm spans."""
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
