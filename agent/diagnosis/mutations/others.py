"""Mutations that put another value in an operand's place.

The value is an earlier or later step of the operand, another operand, or the elements' positions.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import permutations
from typing import Any

import torch

from agent.diagnosis import roles
from agent.diagnosis.graph import Arguments, Needing, Rewrite, invoke, tensors
from agent.diagnosis.mutations.groups import MADE, Change, Groups, Use, taking, variant
from agent.diagnosis.tape import Call
from agent.diagnosis.wrong_references.rules import Facts, Variant

Tensor = torch.Tensor
_MEANS = frozenset({"mean"})
NEAR = 12
"""Maximum number of other values tried for each operand, nearest first."""
STEPS = 8
"""Maximum distance, in calls, to the ancestors of an operand."""


def mutate(groups: Groups, facts: Facts) -> Iterator[Variant]:
    for group in groups.computing():
        for use in groups.uses(group):
            if group.first.func._schema.is_mutable and use.is_first:
                continue
            yield from _another(groups, use)
            yield from _counted(groups, use)
            yield from _broadcast(groups, use)
    yield from _along_another(groups)
    yield from _twice_taken(groups)


def _another(groups: Groups, use: Use) -> Iterator[Variant]:
    """Yield variants with another value of the same shape that is computed before the operand is used."""
    mine, number = use.value, use.group.first.number
    back = groups.ancestors(mine, STEPS)
    found: dict[int, tuple[int, Tensor]] = {}
    for call in groups.tape.calls[max(0, number - 200) : number]:
        for t in (*tensors(call.given), *tensors(call.result)):
            if t is not mine and t.shape == mine.shape and t.is_floating_point() == mine.is_floating_point():
                near = back.get(id(t), 4 + abs(number - call.number) // 4)
                found[id(t)] = min((near, t), found.get(id(t), (near, t)), key=lambda one: one[0])
    for near, other in sorted(found.values(), key=lambda one: one[0])[:NEAR]:
        rewrites = _put(groups, use, other)
        if rewrites is None:
            continue
        is_earlier = id(other) in back
        words = f"with {groups.spoken(other)} in the place of {groups.spoken(mine)} in {use.group.label}"
        kind = _kind(groups, use, other, is_earlier)
        if kind == "state-order":
            before = is_earlier or roles.is_update(groups.tape, other, mine)
            words += ": the state as it is " + (
                "before its update (the old one)" if before else "after its update"
            )
        if kind == "operator-missing":
            kind, said = _left_out(groups, mine, other)
            words += said
        yield variant(kind, words, rewrites, 6 + (near > 4))


def _left_out(groups: Groups, mine: Tensor, earlier: Tensor) -> tuple[str, str]:
    """Return the kind of fault if `earlier` is taken for `mine`, and words for the operators skipped."""
    between = roles.between(groups.tape, earlier, mine)
    names = [groups.of(call).label for call in between]
    said = f": without {', '.join(names)}" if 0 < len(names) <= 3 else ""
    if between and all(roles.masks(groups.tape, call) for call in between):
        return "mask-ignored", f"{said}: the mask is ignored there"
    if len(between) == 1:
        operands = [t for t in tensors(between[0].given) if groups.tape.name(t) not in (None, "")]
        given = any(not str(groups.tape.name(t)).startswith("input") for t in operands)
        if between[0].name == "sub" and roles.made_by(groups.tape, between[0].given["other"], _MEANS, 1):
            return "mean-not-subtracted", f"{said}: the mean is not subtracted"
        if between[0].name in ("add", "sub") and operands:
            return ("bias-missing" if given else "residual-missing"), said
        if between[0].name == "mul":
            return ("weight-ignored" if given else "scale-missing"), f"{said}: a scale is missing"
        return roles.LEFT_OUT.get(between[0].name, "operator-missing"), said
    return "operator-missing", said


def _twice_taken(groups: Groups) -> Iterator[Variant]:
    """Yield variants with an earlier value in both places of an operator that takes one value twice."""
    for group in groups.computing():
        operands = [use for use in groups.uses(group) if use.place is None]
        sources = {id(leaf): leaf for _, leaf in (roles.source(groups.tape, use.value) for use in operands)}
        if len(group.calls) > 1 or len(operands) != 2 or len(sources) != 1:
            continue
        (mine,) = sources.values()
        maker = groups.tape.maker(mine)
        for other in [] if maker is None else [t for t in tensors(maker.given) if t.shape == mine.shape]:
            steps = [_moved_as(groups, use.value, mine) for use in operands]
            if None in steps:
                continue
            changes = {use.argument: step for use, step in zip(operands, steps, strict=True) if step}
            rewrite = Needing((other,), partial(_changed, group.first, changes))
            kind, said = _left_out(groups, mine, other)
            words = f"with {groups.spoken(other)} in the place of {groups.spoken(mine)} on both sides of "
            yield variant(kind, f"{words}{group.label}{said}", {group.first.number: rewrite}, 6)


def _changed(call: Call, changes: dict[str, Change], given: Arguments, values: Sequence[Tensor]) -> Any:
    return invoke(call.func, given | {name: change(values[0]) for name, change in changes.items()})


def _moved_as(groups: Groups, value: Tensor, mine: Tensor) -> Change | None:
    """Return a function that turns `mine` into `value` by the calls between them.

    Return None if `value` does not go back to `mine` along first operands.
    """
    if value is mine:
        return lambda t: t
    call = groups.tape.maker(value)
    before = next((t for t in tensors(call.given)), None) if call is not None else None
    if call is None or before is None:
        return None
    name = next(name for name, given in call.given.items() if given is before)
    earlier = _moved_as(groups, before, mine) if before is not value else None
    return None if earlier is None else lambda t: invoke(call.func, call.given | {name: earlier(t)})


def _put(groups: Groups, use: Use, other: Tensor) -> dict[int, Rewrite] | None:
    """Return rewrites that put `other` in every step, at the same distance as in the first; or None."""
    if use.place is not None:
        return None
    calls, maker = use.group.calls, groups.tape.maker(other)
    if maker is None:
        return use.group.rewritten(lambda call: taking(call, use.argument, other))
    steps, place = groups.of(maker).calls, next(k for k, t in enumerate(tensors(maker.result)) if t is other)
    ahead = steps.index(maker)
    rewrites: dict[int, Rewrite] = {}
    for step, call in enumerate(calls):
        if step + ahead < len(steps) and steps[step + ahead].number < call.number:
            rewrites[call.number] = taking(call, use.argument, tensors(steps[step + ahead].result)[place])
    return rewrites or None


def _kind(groups: Groups, use: Use, other: Tensor, is_earlier: bool) -> str:
    name, stated, tape = use.group.name, groups.tape.name(other), groups.tape
    if is_earlier and (len(use.group.calls) > 1 or stated is not None and tape.in_place):
        return "state-order"
    if roles.is_update(tape, other, use.value) or roles.is_update(tape, use.value, other):
        return "state-order"
    if is_earlier:
        return "operator-missing"
    if name == "div" and not use.is_first:
        return "wrong-divisor"
    if stated is not None and groups.tape.name(use.value) is not None:
        return "operands-swapped"
    if name in ("add", "sub"):
        return "residual-wrong-place" if stated is not None else "operands-swapped"
    return "weight-wrong-place" if name in ("mul", "div") else "operands-swapped"


def _counted(groups: Groups, use: Use) -> Iterator[Variant]:
    """Yield variants with the positions along a dim (1, 2, 3 or 0, 1, 2) in place of the values."""
    mine, name = use.value, use.group.name
    if not mine.dim() or name in MADE or mine.dtype is torch.bool:
        return
    kind = "wrong-divisor" if name == "div" and not use.is_first else "wrong-index-base"
    chosen = roles.chooses(use.group.first, use.argument)
    kind, note = ("index-ignored", ": the index is not read (ignored)") if chosen else (kind, "")
    for axis in [axis for axis in range(mine.dim()) if mine.shape[axis] > 1]:
        for start in (1, 0):
            shape = [-1 if k == axis else 1 for k in range(mine.dim())]
            places = torch.arange(start, start + mine.shape[axis], device=mine.device).reshape(shape)
            words = (
                f"with the place along dim {axis}, counted from {start} at the start of the whole, in the "
                f"place of {groups.spoken(mine)} in {use.group.label}"
            )
            put = lambda t, p=places: p.expand(t.shape).to(t.dtype)  # noqa: E731
            yield variant(kind, words + note, use.changed(put), 8)


def _along_another(groups: Groups) -> Iterator[Variant]:
    """Yield variants that read an operand along one dim by the index of a dim along which it broadcasts."""
    found: dict[tuple[Any, int, int], list[Use]] = {}
    for group in groups.computing():
        shape = group.first.value.shape if group.first.value is not None else ()
        for use in (
            groups.uses(group) if not group.first.written and len(tensors(group.first.given)) > 1 else ()
        ):
            ahead = len(shape) - use.value.dim()
            if ahead < 0 or use.place is not None or use.value.numel() < 2 or use.value.shape == shape:
                continue
            full = (*[1] * ahead, *use.value.shape)
            if any(size not in (1, whole) for size, whole in zip(full, shape, strict=True)):
                continue
            for axis, other in permutations(range(len(shape)), 2):
                if full[axis] > 1 and full[other] == 1 and shape[other] > 1:
                    found.setdefault((tuple(shape), axis, other), []).append(use)
    for (shape, axis, other), uses in found.items():
        for chosen in [[use] for use in uses] + ([uses] if len(uses) > 1 else []):
            named = groups.spoken(chosen[0].value) if len(chosen) == 1 else "what runs"
            words = f"with {named} along dim {axis} of {shape} read by the index of dim {other}"
            rewrites: dict[int, Rewrite] = {}
            for use in chosen:
                rewrites |= use.changed(_turned(len(shape), axis, other, shape[other]))
            words += f" in {chosen[0].group.label}" if len(chosen) == 1 else ", everywhere"
            kind = "keepdim-broadcast" if len(chosen) == 1 else "wrong-axis"
            yield variant(kind, f"{words}: the wrong dim (axis)", rewrites, 6)


def _turned(dims: int, axis: int, other: int, size: int) -> Change:
    def change(t: Tensor) -> Tensor:
        full = t.reshape(*[1] * (dims - t.dim()), *t.shape)
        index = torch.arange(size, device=t.device) % full.shape[axis]
        return full.index_select(axis, index).transpose(axis, other)

    return change


def _broadcast(groups: Groups, use: Use) -> Iterator[Variant]:
    """Yield variants with a 1-D input or parameter along some dim in place of a broadcast operand."""
    result, mine = use.group.first.value, use.value
    if result is None or use.group.first.func._schema.is_mutable or use.place is not None:
        return
    operands = [t for t in tensors(use.group.first.given) if t is not mine]
    if not operands or max(t.numel() for t in operands) < result.numel() or result.numel() <= mine.numel():
        return
    for key, other in groups.leaves.items():
        if other.dim() != 1 or other.numel() < 2 or other.dtype != mine.dtype:
            continue
        for axis in range(result.dim()):
            if result.shape[axis] != other.numel():
                continue
            shape = [-1 if k == axis else 1 for k in range(result.dim())]
            words = f"with {groups.spoken(groups.leaves[key])} along dim {axis} of {tuple(result.shape)} for "
            words += f"{groups.spoken(mine)} in {use.group.label}: the wrong index (place)"
            put = lambda t, o=other, s=shape: o.reshape(s)  # noqa: E731
            yield variant("weight-wrong-place", words, use.changed(put), 7)
