"""Mutations that exchange two values, put a number for a value, or put a later value for an earlier one."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations, permutations
from typing import Any

import torch

from agent.diagnosis import roles
from agent.diagnosis.graph import Arguments, Needing, Rewrite, invoke, tensors
from agent.diagnosis.mutations.groups import MADE, STILL, Group, Groups, Use, variant
from agent.diagnosis.tape import Call
from agent.diagnosis.wrong_references.rules import Facts, Variant

Tensor = torch.Tensor
PAIRS = 120
"""Maximum number of pairs of values that are exchanged."""
PARTS = 4
"""Maximum number of parts of a split value.

With exactly this many parts only two are exchanged, with fewer all orders are tried.
"""
LITERALS = 12
"""Maximum number of literals of the source that are tried for one operand."""
_ARITHMETIC = frozenset({"add", "sub", "mul", "div", "pow", "maximum", "minimum"})


def mutate(groups: Groups, facts: Facts) -> Iterator[Variant]:
    yield from _exchanged(groups)
    yield from _parts(groups)
    yield from _one_of_several(groups)
    for group in groups.computing():
        for use in groups.uses(group) if use_of(group) else ():
            yield from _numbers(groups, use, facts)
            yield from _results(groups, use)


def use_of(group: Group) -> bool:
    return not group.first.func._schema.is_mutable and not isinstance(group.first.result, tuple)


def _exchanged(groups: Groups) -> Iterator[Variant]:
    """Yield variants that exchange two values of equal shape and dtype with a common operand or user.

    An example is a row and a column index.
    """
    made = [
        group
        for group in groups.all
        if group.name not in MADE and not group.first.written and isinstance(group.first.result, Tensor)
        and group.first.result.numel() > 1 and (group.name not in STILL or group.name in ("select", "slice"))
    ]  # fmt: skip
    tried = 0
    for one, other in combinations(made, 2):
        a, b = one.first.result, other.first.result
        if a.shape != b.shape or a.dtype != b.dtype or len(one.calls) != len(other.calls):
            continue
        alike = _operands(groups, one) & _operands(groups, other) or _takers(groups, one) & _takers(
            groups, other
        )
        if not alike or id(a) in groups.ancestors(b, 12):
            continue
        tried += 1
        if tried > PAIRS:
            return
        places = roles.is_place(groups.tape, a) or not a.is_floating_point()
        kind = "coordinates-swapped" if places else "operands-swapped"
        words = f"with the results of {one.label} and {other.label} exchanged (swapped)"
        rewrites: dict[int, Rewrite] = {}
        for first, second in zip(one.calls, other.calls, strict=True):
            rewrites[first.number] = Needing((second.result,), lambda given, values: values[0].clone())
            rewrites[second.number] = lambda given, call=first: call.result.clone()  # type: ignore[misc]
        yield variant(kind, words, rewrites, 6 if places else 7)


def _parts(groups: Groups) -> Iterator[Variant]:
    """Yield variants with the parts that one value is split into in another order."""
    for group in groups.all:
        parts = group.first.result
        if not isinstance(parts, (tuple, list)) or not 1 < len(parts) <= PARTS:
            continue
        several = range(len(parts))
        orders = permutations(several) if len(parts) < PARTS else _pairs(len(parts))
        for order in orders:
            moved = [place for place in several if order[place] != place]
            if not moved or any(parts[place].shape != parts[order[place]].shape for place in moved):
                continue
            if any(parts[place].dtype != parts[order[place]].dtype for place in moved):
                continue
            said = " and ".join(str(place + 1) for place in moved)
            words = f"with parts {said} of {group.label} exchanged (swapped, each in the other's place)"
            rewrites: dict[int, Rewrite] = group.rewritten(
                lambda call, o=order: lambda given: _ordered(invoke(call.func, given), o)  # type: ignore[misc]
            )
            yield variant("operands-swapped", words, rewrites, 5)


_NEUTRAL = {"sum": 0.0, "logsumexp": -torch.inf, "amax": -torch.inf, "amin": torch.inf, "max": -torch.inf,
            "min": torch.inf}  # fmt: skip
"""Value that leaves each reduction's result unchanged."""


def _one_of_several(groups: Groups) -> Iterator[Variant]:
    """Yield variants that reduce a stack without one of its operands."""
    for group in groups.computing():
        users = [groups.of(call) for call in groups.tape.users(group.first)]
        items = group.first.given.get("tensors")
        fill = _NEUTRAL.get(users[0].name) if len(users) == 1 else None
        if group.name != "stack" or fill is None or not isinstance(items, (list, tuple)):
            continue
        for place in range(len(items) if len(items) <= PARTS else 0):
            words = f"with operand {place + 1} of {group.label} left out of {users[0].label}"
            yield variant("operator-missing", words, group.rewritten(_without(place, len(items), fill)), 5)


def _without(place: int, count: int, fill: float) -> Callable[[Call], Rewrite]:
    """Return a maker of rewrites that replace one of `count` joined tensors by `fill`."""

    def run(call: Call, given: Arguments) -> Any:
        items = list(given["tensors"])
        if len(items) == count:
            items[place] = torch.full_like(items[place], fill)
        return invoke(call.func, given | {"tensors": items})

    return lambda call: partial(run, call)


def _pairs(count: int) -> Iterator[tuple[int, ...]]:
    for one, other in combinations(range(count), 2):
        yield tuple({one: other, other: one}.get(place, place) for place in range(count))


def _ordered(parts: Any, order: Sequence[int]) -> Any:
    return type(parts)(parts[place].clone() for place in order)


def _operands(groups: Groups, group: Group) -> set[int]:
    return {id(roles.source(groups.tape, t)[1]) for t in tensors(group.first.given) if t.numel() > 1}


def _takers(groups: Groups, group: Group) -> set[tuple[int, int]]:
    """Return the instructions that take the result, directly or through operators that only move it."""
    found: set[tuple[int, int]] = set()
    left = list(groups.tape.users(group.first))
    while left and len(found) < 8:
        call = left.pop()
        if call.is_view or call.name in STILL:
            left += groups.tape.users(call)
        elif call.place is not None:
            found.add((call.place.instruction, call.place.part))
    return found


def _numbers(groups: Groups, use: Use, facts: Facts) -> Iterator[Variant]:
    """Yield variants with a literal of the source in place of an operand that is not read."""
    value, result = use.value, use.group.first.value
    if use.place is not None or result is None or use.group.name not in _ARITHMETIC or value.numel() < 2:
        return
    if value.numel() == result.numel() and groups.tape.name(value) is None:
        return
    low, high = (float(end) for end in value.detach().double().aminmax())
    width = max(high - low, 1e-3)
    near = [number for number in facts.real if low - width <= number <= high + width]
    for number in near[:LITERALS]:
        words = (
            f"with the constant number {number:g} for {groups.spoken(value)} in {use.group.label}: it is not "
            "read (ignored)"
        )
        put = lambda t, n=number: torch.full_like(t, n)  # noqa: E731
        yield variant("wrong-coefficient", words, use.changed(put), 7)


def _results(groups: Groups, use: Use) -> Iterator[Variant]:
    """Yield variants with a result of the whole run as an operand, such as a state after its update."""
    mine, tape = use.value, groups.tape
    if use.place is not None or len(use.group.calls) > 1:
        return
    for result in tensors(tape.result):
        maker = tape.maker(result)
        if result is mine or result.shape != mine.shape or result.dtype != mine.dtype or maker is None:
            continue
        if maker.number < use.group.first.number or not _is_free_of(groups, result, use.group.first):
            continue
        words = f"with the result of {groups.of(maker).label}, the state after its update, in the place of "
        words += f"{groups.spoken(mine)} in {use.group.label}: read in another order"
        yield variant("state-order", words, use.group.rewritten(lambda c, r=result: _taking(c, use, r)), 6)  # type: ignore[misc]


def _is_free_of(groups: Groups, result: Tensor, call: Call) -> bool:
    """Return True if the result does not depend on the call."""
    made = groups.ancestors(result, 40)
    return not any(id(t) in made for t in tensors(call.result))


def _taking(call: Call, use: Use, value: Tensor) -> Rewrite:
    return lambda given: invoke(call.func, given | {use.argument: value})
