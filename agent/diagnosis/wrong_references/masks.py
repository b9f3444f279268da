"""Faults of masks: ignored, inverted, shifted, of another sample, with another fill, at another step."""

import math
from collections.abc import Iterator
from typing import Any

import torch

from agent.diagnosis import roles
from agent.diagnosis.graph import Arguments
from agent.diagnosis.tape import Call, Tape
from agent.diagnosis.wrong_references.hiding import FINITE, HIDDEN, Change, Fill, hiding
from agent.diagnosis.wrong_references.rules import Site, Variant, rule

Tensor = torch.Tensor
_BRANCH = r"\?|\bif\b"
_FILLS = (0.0, -1.0, 1.0, -100.0, -1e4, -1e-9, 1e-9, -math.inf)


@rule("masked_fill")
def _added(site: Site) -> Iterator[Variant]:
    """Yield variants that add or subtract the mask as a number instead of filling by it."""
    for words, change in (
        ("with what the mask keeps added as 1 and the rest as 0", lambda x, m: x + m.logical_not()),
        ("with the mask added as 1 and 0", lambda x, m: x + m.to(x.dtype)),
        ("with the mask subtracted as 1 and 0", lambda x, m: x - m.to(x.dtype)),
    ):
        said = f"{words} in {site.label}: nothing is filled (masked out)"
        run = lambda given, f=change: f(given["self"], given["mask"])  # noqa: E731
        yield site.variant("mask-ignored", said, run, 3, "mask")


@rule("where", "masked_fill")
def _masks(site: Site) -> Iterator[Variant]:
    key = _key(site)
    mask = site.given[key]
    if mask.dtype is not torch.bool or not isinstance(site.call.result, Tensor):
        return
    fill, shape = hiding(site), site.call.result.shape
    for kind, words, rank, change in _changes(site, mask, shape, fill):
        spoken = words.format(f"the mask of {site.label}")
        yield site.variant(kind, spoken, site.changed(**{key: change}), rank, _BRANCH)
        if fill is not None:
            finite = fill.filled(FINITE, change)
            yield site.variant(kind, f"{spoken}, by a large finite number", finite, rank + 1, _BRANCH)
    if fill is not None:
        yield from _values(site, fill)
        yield from _after_softmax(site, fill)


def _key(site: Site) -> str:
    return "condition" if site.call.name == "where" else "mask"


def _changes(
    site: Site, mask: Tensor, shape: Any, fill: Fill | None
) -> Iterator[tuple[str, str, int, Change]]:
    """Yield the kind, words, rank and change of the mask for each fault."""
    yield "mask-inverted", "with {} inverted", 0, torch.logical_not
    nowhere, everywhere = torch.zeros_like, torch.ones_like
    if fill is not None and fill.inverted:
        nowhere, everywhere = everywhere, nowhere
    ignored = "mask-ignored" if fill is not None or site.call.name == "masked_fill" else "operator-missing"
    # An ignored mask ranks first, since its other explanations are less likely.
    yield ignored, "with {} ignored: it is missing", -1 if fill is not None else 1, nowhere
    yield "operator-missing", "with {} taken as set everywhere", 1, everywhere
    triangular = _is_triangular(site)
    offset = None if triangular else _offset(mask)
    if offset is not None:
        triangular = True
        yield from _other_triangles(offset)
    for axis in range(mask.dim()):
        if mask.shape[axis] < 2:
            continue
        if axis < mask.dim() - 2:
            words = f"with {{}} of index 0 of dim {axis} for all"
            kind = "first-batch-only" if axis == 0 and mask.dim() == len(shape) else "wrong-axis"
            yield kind, words, 1, lambda m, a=axis: m.narrow(a, 0, 1).expand_as(m)  # type: ignore[misc]
        for step in (-1, 1) if not triangular else ():
            words = f"with {{}} shifted by one along dim {axis}: its bound is off by one"
            yield "mask-shifted", words, 2, lambda m, a=axis, s=step: _shifted(m, a, s)  # type: ignore[misc]
    if mask.dim() > 1 and mask.shape[-1] == mask.shape[-2] > 1 and not triangular:
        yield "transposed-operand", "with {} transposed", 1, lambda m: m.transpose(-1, -2)
    yield from _otherwise_broadcast(mask, shape)


def _otherwise_broadcast(mask: Tensor, shape: Any) -> Iterator[tuple[str, str, int, Change]]:
    """Yield changes that read a mask of one dimension along another dimension."""
    long = [axis for axis in range(mask.dim()) if mask.shape[axis] > 1]
    if not long or mask.numel() == math.prod(shape):
        return
    ahead = len(shape) - mask.dim()
    own = long[-1] + ahead
    for other in range(len(shape)):
        if other != own and shape[other] > 1 and (other - ahead not in long):

            def turned(m: Tensor, other: int = other) -> Tensor:
                full = m.reshape([1] * ahead + list(m.shape)).movedim(own, -1)
                index = torch.arange(shape[other], device=m.device) % full.shape[-1]
                return full[..., index].movedim(-1, own).transpose(own, other)

            words = f"with {{}} indexed along dim {other} of {tuple(shape)}, not dim {own}"
            yield "wrong-axis", words, 1, turned


def _shifted(mask: Tensor, axis: int, step: int) -> Tensor:
    """Return the mask shifted by `step` elements, with the last one repeated."""
    size = mask.shape[axis]
    index = (torch.arange(size, device=mask.device) + step).clamp(0, size - 1)
    return mask.index_select(axis, index)


def _is_triangular(site: Site) -> bool:
    """Return True if the reference calls tril or triu, which have their own rules."""
    return site.tape.once(_has_triangles)


def _has_triangles(tape: Tape) -> bool:
    return any(call.name in ("tril", "triu") for call in tape.calls)


def _offset(mask: Tensor) -> int | None:
    """Return d if exactly the elements with column > row + d are set; None for other masks."""
    if mask.dim() < 2 or min(mask.shape[-2:]) < 2 or not bool(mask.any()) or bool(mask.all()):
        return None
    first = mask.reshape(-1, *mask.shape[-2:])[0, 0]
    offset = int(first.to(torch.uint8).argmax()) - 1 if bool(first.any()) else mask.shape[-1] - 1
    return offset if bool((mask == _above(mask, offset)).all()) else None


def _above(mask: Tensor, offset: int) -> Tensor:
    rows, columns = mask.shape[-2:]
    row, column = torch.arange(rows, device=mask.device), torch.arange(columns, device=mask.device)
    return (column > row[:, None] + offset).expand(mask.shape)


def _other_triangles(offset: int) -> Iterator[tuple[str, str, int, Change]]:
    for step in (-1, 1):
        words = f"with the diagonal of {{}} off by {step}: the causal bound is off by one"
        yield "mask-shifted", words, 0, lambda m, s=step: _above(m, offset + s)  # type: ignore[misc]
    for step in (0, -1):
        words = "with {} of the other triangle" + (", the diagonal with it" if step else "")
        turned = lambda m, s=step: _above(m.transpose(-1, -2), s - offset).transpose(-1, -2)  # noqa: E731
        yield "transposed-operand", words, 1, turned


def _values(site: Site, fill: Fill) -> Iterator[Variant]:
    stated = fill.number
    for value in dict.fromkeys((*_FILLS, *(-abs(r) for r in site.facts.real if r))):
        if value != stated and value > HIDDEN:
            words = f"with {value:g} filled in where the mask of {site.label} is set, for {stated:g}"
            spoken = f"{words}: not masked out"
            rank = 1 if following(site, "_softmax") is not None else 3
            yield site.variant("wrong-fill-value", spoken, fill.filled(value), rank, _BRANCH)

    def below(given: Arguments) -> Tensor:
        return torch.as_tensor(given[fill.values] * fill.hidden(given).logical_not())

    words = (
        f"multiplied with the mask of {site.label} before the softmax: masked scores are 0, not {stated:g}"
    )
    yield site.variant("wrong-fill-value", words, below, 2, r"\*")


def _after_softmax(site: Site, fill: Fill) -> Iterator[Variant]:
    """Yield variants that mask the softmax's result, so that its sum still contains masked elements."""
    softmax = following(site, "_softmax")
    if softmax is None or softmax.call.number <= site.call.number:
        return
    hidden, shape = fill.hidden(site.given), site.call.result.shape
    late = softmax.around(lambda y: y * hidden.logical_not())
    rewrites = {
        site.call.number: lambda given: given[fill.values].expand(shape).clone(),
        softmax.call.number: late,
    }
    words = f"with the mask of {site.label} applied after the softmax: the sum has what is masked"
    yield Variant("mask-wrong-place", words, rewrites, 1, "exp|sum")


def following(site: Site, name: str) -> Site | None:
    """Return the next call of operator `name` along a chain of calls with one user each, or None."""
    call: Call | None = site.call
    while call is not None and call.name != name:
        users = site.tape.users(call)
        call = users[0] if len(users) == 1 else None
    return Site(call, site.tape, site.facts) if call is not None else None


@rule("gt", "ge", "lt", "le")
def _comparisons(site: Site) -> Iterator[Variant]:
    forms = {"gt": torch.gt, "ge": torch.ge, "lt": torch.lt, "le": torch.le}
    for name, function in forms.items():
        if name != site.call.name:
            rewrite = lambda given, f=function: f(given["self"], given["other"])  # noqa: E731
            words = f"with the comparison {name} for {site.call.name}"
            # A comparison in the same direction differs only for equal operands: an off-by-one bound.
            kind = "mask-inverted" if _masks_out(site) else "sign-error"
            if name[0] == site.call.name[0]:
                kind = "mask-shifted" if _masks_out(site) or _compares_places(site) else "clamp-bounds"
                kind = "index-off-by-one" if kind == "clamp-bounds" and _counts(site) else kind
                words += ": its bound is off by one" if _counts(site) else ": whether the bound itself counts"
            yield site.variant(kind, words, rewrite, 2, "<|>")


@rule("gt", "ge", "lt", "le", "eq", "ne", "logical_not", "bitwise_not", "logical_and", "bitwise_and")
def _conditions(site: Site) -> Iterator[Variant]:
    """Yield variants with conditions that are ignored, inverted, or wrongly combined."""
    result, name = site.call.result, site.label
    if not isinstance(result, Tensor) or result.dtype is not torch.bool:
        return
    for kind, words, change in (
        ("mask-inverted", f"with the condition {name} inverted", torch.logical_not),
        ("mask-ignored", f"with the condition {name} taken as true everywhere: ignored", torch.ones_like),
        (
            "mask-ignored",
            f"with the condition {name} taken as false everywhere: ignored",
            torch.zeros_like,
        ),
    ):
        yield site.variant(kind, words, site.around(change), 2, _BRANCH)
    if "and" in site.call.name:
        for other in ("self", "other"):
            alone = lambda given, o=other: given[o].expand(result.shape).clone()  # noqa: E731
            segments = site.tape.once(_counts_segments)
            words = f"with one condition of {name} alone: the other is ignored"
            words += ", as if no segment started anew (reset)" if segments else ""
            yield site.variant("segments-ignored" if segments else "mask-ignored", words, alone, 0, "&")
        either = lambda given: torch.logical_or(given["self"], given["other"])  # noqa: E731
        yield site.variant(
            "wrong-combine", f"with either condition of {name}: or for and", either, 1, "&|\\|"
        )


def _counts_segments(tape: Tape) -> bool:
    return any(call.name == "cumsum" and not call.result.is_floating_point() for call in tape.calls)


def _masks_out(site: Site) -> bool:
    """Return True if the comparison becomes, perhaps with other conditions, the mask of a hiding fill."""
    seen, left = {site.call.number}, list(site.tape.users(site.call))
    while left:
        call = left.pop()
        if call.number in seen:
            continue
        seen.add(call.number)
        if call.name in ("masked_fill", "where"):
            if hiding(Site(call, site.tape, site.facts)) is not None:
                return True
        elif isinstance(call.result, Tensor) and call.result.dtype is torch.bool:
            left += site.tape.users(call)
    return False


def _compares_places(site: Site) -> bool:
    return any(roles.is_place(site.tape, site.given[name]) for name in ("self", "other"))


def _counts(site: Site) -> bool:
    return not site.given["self"].is_floating_point()


@rule("mul")
def _kept(site: Site) -> Iterator[Variant]:
    """Yield variants with a factor of zeros and ones, a mask, inverted."""
    for name in ("self", "other"):
        factor = site.given[name]
        if isinstance(factor, Tensor) and factor.numel() > 1 and bool(((factor == 0) | (factor == 1)).all()):
            words = f"with the mask (factor of 0 and 1) of {site.label} inverted: the opposite is kept"
            inverted = site.changed(**{name: lambda m: m.logical_not().to(m.dtype)})
            yield site.variant("mask-inverted", words, inverted, 0, r"\*|\?")
