"""Mutations of every value of the reference, either at its definition or at one of its uses."""

from collections.abc import Iterator

import torch

from agent.diagnosis import roles
from agent.diagnosis.graph import Rewrite, tensors
from agent.diagnosis.mutations.groups import MADE, Group, Groups, Use, variant
from agent.diagnosis.mutations.places import Changed, of_places
from agent.diagnosis.roles import is_mask
from agent.diagnosis.wrong_references.rules import Facts, Variant

Tensor = torch.Tensor
_IN_ANY_ORDER = frozenset({"sum", "mean", "prod", "amax", "amin", "max", "min"})
_COUNTS = frozenset({"constant-added", "wrong-coefficient", "index-off-by-one", "one"})
"""Kinds of changes that, on a divisor, count as a wrong divisor."""
_BOUNDS = frozenset({"clamp", "clamp_min", "clamp_max", "maximum", "minimum"})
NOTES = {
    "wrong-divisor": ", which the divisor (count) is made of",
    "segments-ignored": ": all are one segment (group)",
}
"""Words appended to a description for kinds that depend on the role of the value."""
MOST_STEPS = 16
"""Maximum number of steps of a loop that are examined."""
WARP = 32
SIZES = 6
"""Maximum number of sizes tried as moduli of an index."""


def mutate(groups: Groups, facts: Facts) -> Iterator[Variant]:
    sizes = _sizes(groups)
    for group in groups.all:
        # Steps of a loop may differ in size: the largest one decides which changes are possible.
        largest = max(group.calls, key=lambda call: call.value.numel() if call.value is not None else 0)
        for place, value in enumerate(tensors(largest.result)):
            yield from _where_made(groups, group, place, value, sizes)
    for key, leaf in groups.leaves.items():
        uses = groups.takers.get(key, [])
        spoken = groups.spoken(leaf)
        for one in of_value(leaf, sizes):
            words = f"with {one.words.format(spoken)}"
            kind = _kind(one.kind, groups, leaf, uses)
            made = one.change(leaf)
            made = made if one.kind == "bits-compared" else made.to(leaf.dtype)
            yield Variant(kind, words + NOTES.get(kind, ""), {}, one.rank, "", {key: made.contiguous()})
        if len(uses) > 1:
            yield from _where_taken(groups, uses, sizes)


def _where_made(
    groups: Groups, group: Group, place: int, value: Tensor, sizes: list[int]
) -> Iterator[Variant]:
    uses = groups.takers.get(id(tensors(group.first.result)[place]), [])
    nothing = group.name in MADE and value.numel() < 2
    if nothing or group.first.is_view and len(uses) < 2 and groups.tape.name(value) is not None:
        return
    if place and not isinstance(group.first.result, tuple):
        return
    spoken = groups.spoken(value) if place == 0 else f"result {place} of {group.label}"
    for one in of_value(value, sizes):
        words = f"with {one.words.format(spoken)}"
        kind = _kind(one.kind, groups, value, uses)
        yield variant(kind, words + NOTES.get(kind, ""), group.result(one.change, place), one.rank)
    if len(uses) > 1:
        yield from _where_taken(groups, uses, sizes)


def _where_taken(groups: Groups, uses: list[Use], sizes: list[int]) -> Iterator[Variant]:
    for use in uses:
        if use.group.first.func._schema.is_mutable and use.is_first:
            continue
        spoken, at = groups.spoken(use.value), use.group.label
        for one in of_value(use.value, sizes):
            words = f"with {one.words.format(spoken)} in {at}"
            kind = _kind(one.kind, groups, use.value, [use])
            yield variant(kind, words, use.changed(one.change), one.rank + 1)
        if len(use.group.calls) > 1:
            first = use.group.first
            rewrites: dict[int, Rewrite] = {first.number: use.changed(torch.zeros_like)[first.number]}
            words = f"with {spoken} taken for zero in the first step of {at}: it begins with zero"
            yield variant("wrong-initial-state", words, rewrites, 6)


def _sizes(groups: Groups) -> list[int]:
    """Return the dim sizes of all values, most frequent first."""
    counted: dict[int, int] = {}
    for call in groups.tape.calls:
        if call.value is not None:
            for size in call.value.shape:
                counted[size] = counted.get(size, 0) + 1
    for leaf in groups.leaves.values():
        for size in leaf.shape:
            counted[size] = counted.get(size, 0) + 1
    return sorted((size for size in counted if size > 1), key=lambda size: -counted[size])


def _kind(kind: str, groups: Groups, value: Tensor, uses: list[Use]) -> str:
    """Return the kind of fault, refined by the operators that use the value."""
    named = groups.tape.name(value)
    while len(uses) == 1 and uses[0].group.first.is_view and uses[0].group.first.value is not None:
        uses = groups.takers.get(id(uses[0].group.first.value), [])
    taker = uses[0].group.name if len(uses) == 1 else ""
    parameter = named is not None and not named.startswith("input")
    if kind in ("zero", "one"):
        return _left_out(kind, groups, value, uses)
    if kind == "bounded":
        maker = roles.source(groups.tape, value)[0]
        filled = maker is not None and maker.name in ("sort", "topk", "max", "amax", "cummax", "kthvalue")
        return "reduction-start-value" if filled else "wrong-activation"
    if (
        kind == "transposed-operand"
        and value.dtype is torch.bool
        and roles.from_condition(groups.tape, value)
    ):
        return "mask-inverted" if _is_triangle(value) else kind
    if kind == "root-omitted" and taker == "mul" and parameter:
        return "scale-doubled"
    if kind == "constant-added" and uses and roles.cuts(uses[0].group.first):
        return "wrong-rounding"
    if kind == "modulo":
        return "padding-mode" if taker in _BOUNDS else "wrong-index-base"
    if kind == "wrong-rounding" and roles.is_fraction(groups.tape, value):
        return "interpolation-mode"
    if kind == "index-ignored" and any(
        use.group.name in roles.WRITES and roles.chooses(use.group.first, use.argument) for use in uses
    ):
        return "segments-ignored"
    if kind == "first-batch-only" and not groups.is_of_batch(value):
        return "index-ignored"
    of_places = kind == "index-off-by-one" and roles.is_place(groups.tape, value)
    if of_places and roles.bounds_masks(groups.tape, [use.group.first for use in uses]):
        return "mask-shifted"
    if kind == "index-off-by-one" and taker in _IN_ANY_ORDER:
        # A reduction ignores the order of its elements, so the only effect of a shift is an element lost at
        # the end.
        return "lost-last-block"
    if kind in _COUNTS and taker == "div" and uses[0].argument == "other":
        return "wrong-divisor"
    if kind == "layout-misread" and taker in ("cumsum", "cumprod", "logcumsumexp"):
        return "scan-reversed"
    return kind


def _left_out(kind: str, groups: Groups, value: Tensor, uses: list[Use]) -> str:
    """Return the kind of fault if the value is taken for zero or one."""
    named, maker = groups.tape.name(value), groups.tape.maker(value)
    parameter = named is not None and not named.startswith("input")
    if kind == "one":
        calls = () if maker is None else groups.of(maker).calls[:MOST_STEPS]
        made = [value, *(t for call in calls for t in tensors(call.result))]
        if any(roles.from_condition(groups.tape, t) for t in made):
            return "mask-ignored"
        return "weight-ignored" if parameter else "scale-missing"
    if len(uses) == 1 and uses[0].group.name in ("add", "sub"):
        result = uses[0].group.first.value
        whole = result is not None and result.numel() == value.numel()
        return "bias-missing" if parameter else "residual-missing" if named and whole else "operator-missing"
    return "operator-missing"


def _is_triangle(mask: Tensor) -> bool:
    return bool((mask == mask.tril()).all() or (mask == mask.triu()).all())


def of_value(value: Tensor, sizes: list[int]) -> Iterator[Changed]:
    """Yield the changes of a value that depend on its elements alone."""
    if value.numel() == 0 or value.is_complex():
        return
    if value.dtype is torch.bool:
        yield from _of_mask()
    elif is_mask(value):
        yield Changed("mask-inverted", "{}, a mask, inverted", lambda t: 1 - t, 5)
        yield Changed("mask-ignored", "{}, a mask, taken as true everywhere: ignored", torch.ones_like, 5)
        yield Changed("mask-ignored", "{}, a mask, taken as false everywhere", torch.zeros_like, 5)
    elif value.is_floating_point():
        yield from _of_numbers(value)
    else:
        yield from _of_indices(value, sizes)
    yield from of_places(value, sizes[:SIZES])
    yield from _of_constants(value)


def _of_constants(value: Tensor) -> Iterator[Changed]:
    """Yield changes of one number to another, in values with at most four different numbers."""
    known = (
        torch.unique(value.detach())
        if value.is_floating_point() and 1 < value.numel() <= 64
        else value.reshape(-1)[:0]
    )
    for number in known.tolist() if known.numel() <= 4 else []:
        for other in dict.fromkeys((0.0, 1.0, -number, 2 * number, number / 2, *known.tolist())):
            if other != number:
                words = f"{other:g} for {number:g} in {{}}"
                put = lambda t, n=number, o=other: torch.where(t == n, o, t)  # noqa: E731
                yield Changed("wrong-coefficient", words, put, 6)


def _of_mask() -> Iterator[Changed]:
    yield Changed("mask-inverted", "{} inverted", torch.logical_not, 5)
    yield Changed("mask-ignored", "{} taken as true everywhere", torch.ones_like, 5)
    yield Changed("mask-ignored", "{} taken as false everywhere", torch.zeros_like, 5)


def _of_numbers(value: Tensor) -> Iterator[Changed]:
    yield Changed("zero", "{} taken for zero: it is left out", torch.zeros_like, 5)
    yield Changed("one", "{} taken for one: it is left out", torch.ones_like, 5)
    yield Changed("sign-error", "{} negated", torch.neg, 5)
    yield Changed("wrong-activation", "the absolute value of {}: its sign is lost", torch.abs, 6)
    yield Changed(
        "root-omitted", "{} squared: as if it were applied twice, or its root left out", torch.square, 6
    )
    low, high = (float(end) for end in value.detach().aminmax())
    if low >= 0:
        yield Changed("square-omitted", "the root of {}", torch.sqrt, 6)
        if low > 0:
            yield Changed("wrong-activation", "the logarithm of {}", torch.log, 6)
            yield Changed("wrong-divisor", "one over {}", torch.reciprocal, 6)
        kind = "weights-swapped" if high <= 1 else "wrong-coefficient"
        yield Changed(kind, "1 - {} for it: its complement (weights of a mix exchanged)", lambda t: 1 - t, 6)
        if low == 0 and high <= 1:
            words = "1 - {} for it where it is not zero: its complement (weights of a mix exchanged)"
            yield Changed("weights-swapped", words, lambda t: torch.where(t > 0, 1 - t, t), 6)
    if high < 50:
        yield Changed("log-missing", "the exponential of {}", torch.exp, 7)
    for number in (0.5, 2.0):
        yield Changed("wrong-coefficient", f"{number:g} times {{}}", lambda t, n=number: n * t, 7)  # type: ignore[misc]
    for number in (1.0, -1.0, 0.5, -0.5):
        yield Changed("constant-added", f"{number:g} added to {{}}", lambda t, n=number: t + n, 7)  # type: ignore[misc]
    for word, function in (("down", torch.floor), ("up", torch.ceil), ("to the nearest", torch.round)):
        yield Changed("wrong-rounding", f"{{}} rounded {word}", function, 8)
    words = "{} bounded below by zero, as if it started from zeros or were filled up with them"
    yield Changed("bounded", words, torch.relu, 7)
    yield Changed("wrong-activation", "{} bounded by one", lambda t: t.clamp_max(1), 8)


def _of_indices(value: Tensor, sizes: list[int]) -> Iterator[Changed]:
    if int(value.min()) < 0:
        words = "the absolute value of {}: both sides (directions) are taken alike"
        yield Changed("mask-shifted", words, torch.abs, 6)
    for step in (1, -1):
        yield Changed("index-off-by-one", f"{step:+d} in {{}}: off by one", lambda t, s=step: t + s, 6)  # type: ignore[misc]
        low, high = int(value.min()), int(value.max())
        bounded = lambda t, s=step, a=low, b=high: (t + s).clamp(a, b)  # noqa: E731
        words = f"{step:+d} in {{}}, within bounds: off by one"
        yield Changed("index-off-by-one", words, bounded, 6)
    yield Changed("index-ignored", "{} taken for zero", torch.zeros_like, 6)
    words = "{} one short at its end: the last place is never taken"
    yield Changed("last-element-left-out", words, lambda t: t.clamp_max(t.max() - 1), 6)
    if value.dtype is torch.int64:
        words = "the memory of {} read as 32-bit integers, although they have 64 bits"
        yield Changed("data-ptr-type", words, _as_int, 5)
    yield Changed("layout-misread", "{} counted from the end", lambda t: t.max() + t.min() - t, 7)
    if low < 0 and value.dtype in (torch.int8, torch.int16):
        span = 1 << (8 * value.element_size())
        words = f"{{}} read as unsigned: the bits without their sign, {span} added to what is negative"
        unsigned = lambda t, n=span: torch.where(t < 0, t.long() + n, t.long())  # noqa: E731
        yield Changed("bits-compared", words, unsigned, 5)
    for size in dict.fromkeys((*sizes[:SIZES], WARP)):
        words = f"{{}} modulo {size}: wrapped around at the end"
        yield Changed("modulo", words, lambda t, n=size: t % n, 7)  # type: ignore[misc]
        yield Changed("wrong-index-base", f"{{}} divided by {size}", lambda t, n=size: t // n, 8)  # type: ignore[misc]
        for other in sizes[:SIZES]:
            if other != size:
                words = f"{{}} flattened with width {other} in place of {size}: another stride"
                flat = lambda t, n=size, m=other: t // n * m + t % n  # noqa: E731
                yield Changed("wrong-index-base", words, flat, 8)


def _as_int(t: Tensor) -> Tensor:
    return t.contiguous().view(torch.int32).reshape(-1)[: t.numel()].reshape(t.shape).to(t.dtype)
