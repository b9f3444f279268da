"""Mutations at borders: positions without their bounds, and pairwise values without the diagonal."""

from collections.abc import Iterator

import torch

from agent.diagnosis import roles
from agent.diagnosis.graph import Arguments, Rewrite, invoke
from agent.diagnosis.mutations.groups import Group, Groups, variant
from agent.diagnosis.wrong_references.reductions import axes_of
from agent.diagnosis.wrong_references.rules import Facts, Variant

Tensor = torch.Tensor
FAR = 8
"""Maximum number of operators between a position and the integer computed from it."""
_BOUNDS = frozenset({"clamp", "clamp_min", "clamp_max"})
_WHOLE = frozenset({"floor", "ceil", "round", "trunc", "_to_copy"})
_EMPTY = {"sum": 0.0, "mean": 0.0, "amax": -torch.inf, "max": -torch.inf, "amin": torch.inf, "min": torch.inf,
          "logsumexp": -torch.inf, "_softmax": -torch.inf, "_log_softmax": -torch.inf}  # fmt: skip
"""Neutral value of each reduction: an element that is left out counts as this."""


def mutate(groups: Groups, facts: Facts) -> Iterator[Variant]:
    for group in groups.computing():
        if group.name in _BOUNDS:
            yield from _unbounded(groups, group)
            yield from _empty_outside(groups, group)
            last = group.first.given.get("max")
            if type(last) is int and last > 0:
                words = f"modulo {last + 1} in {group.label}: wrapped around where the reference clamps"
                wrapped = lambda given, n=last + 1: given["self"] % n  # noqa: E731
                yield variant("padding-mode", words, group.rewritten(lambda call, w=wrapped: w), 6)  # type: ignore[misc]
        if group.name == "abs" and roles.is_place(groups.tape, group.first.given["self"]):
            for ahead, said in ((1, "ahead"), (-1, "behind")):
                words = f"with the window on one side alone: what lies {said} is left out in {group.label}"
                change = lambda call, s=ahead: lambda given: _one_side(given["self"], s)  # noqa: E731
                yield variant("mask-shifted", words, group.rewritten(change), 5)
        if group.name in _EMPTY:
            yield from _without_diagonal(group)


def _one_side(distance: Tensor, side: int) -> Tensor:
    """Return the distance, moved far beyond every window on the side opposite to `side`."""
    away = distance.abs()
    return torch.where(distance * side < 0, away.max() + away, away)


def _unbounded(groups: Groups, group: Group) -> Iterator[Variant]:
    """Yield variants without the clamp of a position, while the integer computed from it stays in bounds."""
    value = group.first.value
    wholes = list(_wholes(groups, group))
    if value is None or not value.is_floating_point() or not wholes:
        return
    free: dict[int, Rewrite] = group.rewritten(lambda call: lambda given: given["self"].clone())
    for whole in wholes:
        low, high = whole.first.value.aminmax()  # type: ignore[union-attr]
        free |= whole.result(lambda t, a=low, b=high: t.clamp(a, b))  # type: ignore[misc]
    words = (
        f"without {group.label}: what lies outside the bounds is not clamped but goes on along the first and "
        "the last step (extrapolated)"
    )
    yield variant("clamp-missing", words, free, 6)


def _empty_outside(groups: Groups, group: Group) -> Iterator[Variant]:
    """Yield variants that read zero wherever a clamp moves a position to the border."""
    place, made = group.first.given.get("self"), group.first.value
    if not isinstance(place, Tensor) or made is None or len(group.calls) > 1:
        return
    yield from _uncounted(groups, group, place != made)
    whole = groups.tape.maker(place)
    given = whole.given.get("self") if whole is not None and whole.name in _WHOLE else None
    if isinstance(given, Tensor) and given.is_floating_point() and given.shape == made.shape:
        # Truncation towards zero moves some values from below the bounds to within them.
        yield from _uncounted(groups, group, (given < made.min()) | (given >= made.max() + 1))
    now, seen = list(groups.tape.users(group.first)), 0
    while now and seen < FAR * 2:
        seen += 1
        call = now.pop(0)
        if call.name in roles.READS and isinstance(call.result, Tensor) and call.result.is_floating_point():
            outside = _over(place != made, call.result)
            if outside is not None:
                words = f"with zero where {group.label} holds the place at the border: filled, not repeated"
                hidden = lambda t, m=outside: t.masked_fill(m, 0.0)  # noqa: E731
                yield variant("padding-mode", words, groups.of(call).result(hidden), 6)
        elif call.name not in roles.READS:
            now += groups.tape.users(call)


def _uncounted(groups: Groups, group: Group, outside: Tensor) -> Iterator[Variant]:
    """Yield variants in which positions that a clamp moves to the border add nothing."""
    for call in groups.tape.calls[group.first.number :]:
        key = next((key for key in ("src", "source", "values", "weights") if key in call.given), None)
        added, index = call.given.get(key or ""), call.given.get("index")
        if not isinstance(added, Tensor) or not isinstance(index, Tensor) or "add" not in call.name:
            continue
        hidden = _over(outside, added)
        if hidden is not None and id(group.first.result) in groups.ancestors(index, FAR):
            words = f"with what lies beyond the bounds of {group.label} left out of {groups.of(call).label}, "
            words += "not counted at the border"
            without = lambda t, m=hidden: t.masked_fill(m, 0.0)  # noqa: E731
            yield variant("clamp-missing", words, groups.of(call).given(str(key), without), 5)


def _over(mask: Tensor, result: Tensor) -> Tensor | None:
    """Return the mask in a shape that broadcasts to the result, or None.

    Its dims are aligned with the last dims, the first dims, or split around inserted dims of size one.
    """
    shapes = (
        tuple(mask.shape),
        (*mask.shape, *[1] * (result.dim() - mask.dim())),
        *(
            (*mask.shape[:at], *[1] * (result.dim() - mask.dim()), *mask.shape[at:])
            for at in range(mask.dim())
        ),
    )
    for shape in shapes:
        own, whole = shape[::-1], tuple(result.shape)[::-1]
        if len(own) <= len(whole) and all(a in (1, b) for a, b in zip(own, whole, strict=False)):
            return mask.reshape(shape)
    return None


def _wholes(groups: Groups, group: Group) -> Iterator[Group]:
    """Yield the groups that first turn the value into integers."""
    seen, now = {group.first.number}, list(groups.tape.users(group.first))
    for _ in range(FAR):
        following = []
        for call in (call for call in now if call.number not in seen):
            seen.add(call.number)
            counted = call.value is not None and not call.value.is_floating_point()
            if call.name in _WHOLE and (counted or call.name != "_to_copy"):
                if isinstance(call.result, Tensor):
                    yield groups.of(call)
            else:
                following += groups.tape.users(call)
        now = following


def _without_diagonal(group: Group) -> Iterator[Variant]:
    """Yield variants of a reduction over a matrix of pairs without each element's pair with itself."""
    x = group.first.given.get("self")
    if not isinstance(x, Tensor) or x.dim() < 2 or x.shape[-1] != x.shape[-2] or x.shape[-1] < 3:
        return
    axes = axes_of(x, group.first.given.get("dim"))
    if not {x.dim() - 1, x.dim() - 2} & set(axes) or not x.is_floating_point():
        return
    words = f"with the diagonal (each element's own pair, itself) left out of {group.label}: masked"
    yield variant("mask-wrong-place", words, group.rewritten(lambda call: _hollow(call.func, call.name)), 6)


def _hollow(func: object, name: str) -> Rewrite:
    def run(given: Arguments) -> Tensor:
        x = given["self"]
        own = torch.eye(x.shape[-1], dtype=torch.bool, device=x.device)
        made = invoke(func, given | {"self": x.masked_fill(own, _EMPTY[name])})
        if name == "_log_softmax":
            # The element itself is still normalised by the sum of the other elements.
            others = x.masked_fill(own, -torch.inf).logsumexp(given["dim"], keepdim=True)
            return torch.as_tensor(x - others)
        return torch.as_tensor(made)

    return run
