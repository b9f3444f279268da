"""Smaller sizes for a reference that keep what matters about the real ones.

Contract: pure search over numbers and traces. The rules, for every size above 32 at module level: the
remainder modulo 32 stays, none falls below 2, sizes that differ stay different and equal ones equal, and
sizes that reach the constructor keep their divisibility with a ratio above 1. A proposal counts only if its
trace shows the same operators on smaller shapes (`same_work`). Nothing of a reference runs here.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from pydantic import JsonValue, PositiveInt

from agent.problems.sizes import constructor_sizes, module_sizes, rewritten
from agent.records import Operation, Record, TensorSpec, Trace

UNTOUCHED = 32
"""Sizes up to here stay: channels per group, heads and kernel sizes live there."""

Values = Mapping[int, int]
"""Real size -> size to use, for every size of the reference."""


class Limits(Record):
    """What a run may cost."""

    max_elements: PositiveInt
    """Elements of the largest step: all inputs, parameters and outputs, or what one operator touches."""
    max_macs: PositiveInt
    """Multiply-accumulates of all products and convolutions."""
    seconds: float
    """Time for the search; the best that was found by then is taken."""


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


class Plan(NamedTuple):
    """The source with its new sizes, by name real and used, and what it does now."""

    source: str
    sizes: dict[str, tuple[int, int]]
    trace: Trace


def cost(trace: Trace) -> Cost:
    """Elements and multiply-accumulates of one forward."""
    ends = [spec for spec in (*trace.inputs, *trace.state, *trace.outputs) if isinstance(spec, TensorSpec)]
    steps = [sum(spec.elements for spec in (*op.inputs, *op.outputs)) for op in trace.operations if op.bytes]
    return Cost(max(sum(spec.elements for spec in ends), *steps, 0), sum(map(_macs, trace.operations)))


def plan(source: str, real: Trace, limits: Limits, attempt: Callable[[str], Trace | None]) -> Plan:
    """The largest step down that fits `limits`, or the smallest sizes that the rules allow.

    `attempt` traces a changed source and gives None where the reference does not run on it.
    """
    sizes = module_sizes(source)
    traces = {source: real}

    def judged(values: Values) -> Cost | None:
        changed = rewritten(source, values)
        if changed not in traces:
            seen = attempt(changed)
            if seen is None or not same_work(real, seen):
                return None
            traces[changed] = seen
        return cost(traces[changed])

    init = constructor_sizes(source)
    values = search({size.value for size in sizes}, init, judged, limits)
    chosen = rewritten(source, values)
    return Plan(
        chosen, {s.name: (s.value, values[s.value]) for s in sizes if s.value > UNTOUCHED}, traces[chosen]
    )


def search(
    sizes: set[int], init: frozenset[int], judged: Callable[[Values], Cost | None], limits: Limits
) -> dict[int, int]:
    """Steps the largest size down, about halving it, until `judged` fits the limits or no step is left.

    Sizes of the data alone (batch, sequence, image) go first: those of the constructor are often the ones
    that are reduced over, and a loop should still go round. The last step is the one that gives away least:
    of all that fit the costliest, and of those that cost about the same the one with larger constructor
    sizes.
    """
    deadline = time.monotonic() + limits.seconds
    values = {size: size for size in sizes}
    now = judged(values)
    while now is not None and not now.within(limits):
        steps = _cheaper(values, init, judged, now, deadline)
        step = next(steps, None)
        if step is None:
            break
        if step[0].within(limits):
            fitting = [step, *(other for other in steps if other[0].within(limits))]
            step = max(
                fitting, key=lambda s: (round(s[0].share(limits), 1), sum(s[1][size] for size in init))
            )
        now, values = step
    return values


def lower_values(value: int) -> tuple[int, ...]:
    """Values below `value`, each about half of the one before, with its remainder modulo 32; none below 2."""
    remainder = value % 32
    least = remainder if remainder >= 2 else remainder + 32
    found = []
    while value > least:
        half = value // 2
        value = max(least, half - (half - remainder) % 32)
        found.append(value)
    return tuple(found)


def admissible(values: Values, init: frozenset[int]) -> bool:
    """Sizes that differ stay different; constructor sizes that divide one another still do."""
    if len(set(values.values())) < len(values):
        return False
    return all(
        values[large] % values[small] == 0 and values[large] >= 2 * values[small]
        for large in init
        for small in init
        if large > small > 1 and large % small == 0
    )


def group_size(operation: Operation) -> int:
    """Channels per group of a group norm, 1 for any other operator."""
    channels, groups = operation.attributes.get("C"), operation.attributes.get("group")
    return channels // groups if isinstance(channels, int) and isinstance(groups, int) and groups else 1


def same_work(real: Trace, used: Trace) -> bool:
    """True where `used` runs the same operators in the same order and only sizes differ."""
    return (
        len(real.operations) == len(used.operations)
        and all(map(_same_operation, real.operations, used.operations))
        and _same_form(real.outputs, used.outputs)
        and _same_form(real.state, used.state)
    )


def _cheaper(
    values: dict[int, int],
    init: frozenset[int],
    judged: Callable[[Values], Cost | None],
    now: Cost,
    deadline: float,
) -> Iterator[tuple[Cost, dict[int, int]]]:
    """Proposals that run and cost less than `now`, until the time is up."""
    for proposal in _proposals(values, init):
        if time.monotonic() > deadline:
            return
        lower = judged(proposal)
        if lower is not None and lower.below(now):
            yield lower, proposal


def _proposals(values: dict[int, int], init: frozenset[int]) -> Iterator[dict[int, int]]:
    for size in sorted((s for s in values if s > UNTOUCHED), key=lambda s: (s in init, -values[s], s)):
        for lower in lower_values(values[size]):
            single = {**values, size: lower}
            together = {**single, **_partners(size, lower, values, init)}
            if together != single and admissible(together, init):
                yield together
            if admissible(single, init):
                yield single


def _partners(size: int, lower: int, values: dict[int, int], init: frozenset[int]) -> dict[int, int]:
    """The constructor sizes that divide `size`, brought down with it: groups follow their channels."""
    partners = {}
    for other in init:
        if size in init and other != size and other > UNTOUCHED and values[size] % values[other] == 0:
            wanted = values[other] * lower // values[size]
            fitting = [value for value in lower_values(values[other]) if value <= wanted]
            if fitting:
                partners[other] = fitting[0]
    return partners


def _same_operation(real: Operation, used: Operation) -> bool:
    return (
        real.overload == used.overload
        and real.takes_result_of == used.takes_result_of
        and (real.broadcast is None) == (used.broadcast is None)
        and real.attributes.keys() == used.attributes.keys()
        and all(_same_kind(value, used.attributes[name]) for name, value in real.attributes.items())
        and _same_form((*real.inputs, *real.outputs), (*used.inputs, *used.outputs))
        and (_ratio(real) < 2 or _ratio(used) >= 2)
        and (group_size(real) < 2 or group_size(used) >= 2)
    )


def _same_form(real: tuple[TensorSpec, ...], used: tuple[TensorSpec, ...]) -> bool:
    """Ranks, dtypes and names agree; a dimension is 1 where it was, and those that differed still differ."""
    kinds = [(len(spec.shape), spec.dtype, spec.name) for spec in real]
    if kinds != [(len(spec.shape), spec.dtype, spec.name) for spec in used]:
        return False
    pairs = {
        (before, after)
        for one, other in zip(real, used, strict=True)
        for before, after in zip(one.shape, other.shape, strict=True)
    }
    return all(
        (before >= 2) == (after >= 2) and (before == 0) == (after == 0) for before, after in pairs
    ) and all(
        after != other_after or before == other_before
        for before, after in pairs
        for other_before, other_after in pairs
    )


def _same_kind(real: JsonValue, used: JsonValue) -> bool:
    """Numbers may change with the sizes; everything else stays as it is."""
    if isinstance(real, list) and isinstance(used, list):
        return len(real) == len(used) and all(map(_same_kind, real, used))
    numbers = (int, float)
    if isinstance(real, numbers) and isinstance(used, numbers) and not isinstance(real, bool):
        return type(real) is type(used)
    return real == used


def _ratio(operation: Operation) -> float:
    """Elements of the largest operand per element of the first output: above 1 for a reduction.

    1 for products: their inner dimension is a dimension like any other.
    """
    if _macs(operation) or not operation.inputs or not operation.outputs or not operation.outputs[0].elements:
        return 1
    return max(spec.elements for spec in operation.inputs) / operation.outputs[0].elements


def _macs(operation: Operation) -> int:
    """Half of the FLOPs where they exceed one per element read, which only products and convolutions do."""
    read = sum(spec.elements for spec in operation.inputs)
    return operation.flops // 2 if operation.flops > read else 0
