"""Faults of operators with two tensors: an operand left out, misread, exchanged, or with the wrong sign."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from agent.diagnosis import roles
from agent.diagnosis.graph import Arguments, Rewrite, tensors
from agent.diagnosis.wrong_references.affine import INDEX
from agent.diagnosis.wrong_references.arithmetic import gives_numbers
from agent.diagnosis.wrong_references.rules import Site, Variant, rule

Tensor = torch.Tensor
EARLIEST = 64
"""Maximum number of calls, from the first, whose values are tried in place of an operand."""
ANCESTORS = 200
"""Number of ancestors of the other operand at which the search for a residual stops."""
OTHERS = 8
"""Maximum number of values tried in place of an operand."""
_PARTICIPLES = {"add": "added", "sub": "subtracted"}


@rule("add", "sub", "mul", "div", "maximum", "minimum")
def _with_tensor(site: Site) -> Iterator[Variant]:
    """Yield the faults of an operator whose two operands are tensors."""
    a, b = site.given["self"], site.given["other"]
    if (
        not isinstance(b, Tensor)
        or not isinstance(a, Tensor)
        or not gives_numbers(site)
        or site.call.value is None
    ):
        return
    shape = site.call.value.shape
    for name, mine, other in (("self", a, b), ("other", b, a)):
        yield from _left_out(site, name, mine, other, shape)
        yield from _inverted_mask(site, name, mine)
        if mine.numel() < math.prod(shape) and mine.numel() > 1:
            yield from _misread(site, name, mine, shape)
        if mine.shape == shape:
            yield from _exchanged(site, name, mine)
        elif site.tape.name(mine) is not None:
            yield from _rolled(site, name, mine)
    yield from _otherwise(site)


def _inverted_mask(site: Site, name: str, mine: Tensor) -> Iterator[Variant]:
    """Yield the variant with a factor of zeros and ones, a mask, inverted."""
    if site.call.name == "mul" and bool(((mine == 0) | (mine == 1)).all()) and bool((mine == 0).any()):
        words = f"with {_described(site, mine)}, a mask, inverted: the opposite is kept"
        yield site.variant(
            "mask-inverted", words, site.changed(**{name: lambda t: 1 - t.to(torch.int8)}), 0, "!|\\*"
        )


def _left_out(site: Site, name: str, mine: Tensor, other: Tensor, shape: Any) -> Iterator[Variant]:
    """Yield variants with the operand left out or applied twice."""
    parameter, operation = site.tape.name(mine), site.call.name
    given_in = parameter is not None and not parameter.startswith("input")
    spoken = _described(site, mine)
    tokens = (parameter.split(".")[-1] + "|" if parameter else "") + r"bias|weight|scale|\+|\*"
    rank = 0 if parameter or (operation == "div" and name == "other") else 1
    other_name = "other" if name == "self" else "self"

    def alone(given: Arguments) -> Tensor:
        kept: Tensor = given[other_name].expand(shape).clone()
        if name == "self" and operation == "sub":
            return -kept
        return kept.reciprocal() if name == "self" and operation == "div" else kept

    def twice(given: Arguments) -> Any:
        again = other_name if operation in ("add", "mul") else "self"
        return site.changed()(given | {again: site.changed()(given)})

    repeatable = name == "other" or operation in ("add", "mul")
    if operation in ("add", "sub"):
        kind, words = "operator-missing", f"with {spoken} not {_PARTICIPLES[operation]}: left out"
        if operation == "sub" and name == "other" and roles.scan_with(site.tape, other, mine) == "cumsum":
            kind, words = "scan-inclusive", f"{words}, an inclusive scan that counts each element itself"
        elif given_in:
            kind = "bias-missing"
        elif mine.numel() == math.prod(shape) and _goes_around(site, mine, other):
            kind = "residual-missing"
        yield site.variant(kind, words, alone, rank, tokens)
        if repeatable:
            kind = "bias-doubled" if given_in else "operator-doubled"
            words = f"with {spoken} {_PARTICIPLES[operation]} twice"
            yield site.variant(kind, words, twice, 1, tokens)
    elif operation in ("mul", "div"):
        table = parameter is not None and 1 < mine.numel() < math.prod(shape)
        kind = "weight-ignored" if given_in or table else "scale-missing"
        kind = "sum-for-mean" if operation == "div" and name == "other" and _is_sum(site, a=other) else kind
        called = "weight, a scale," if kind == "weight-ignored" else "scale"
        if operation == "mul" and roles.from_condition(site.tape, mine):
            kind, spoken, called = "mask-ignored", f"{spoken}, a mask,", "mask"
        if operation == "div" and name == "other" and roles.scan_with(site.tape, other, mine) == "cumprod":
            kind, spoken = "scan-inclusive", f"{spoken}, the element itself (an inclusive scan),"
        verb = "multiplied" if operation == "mul" else "divided"
        words = f"with {spoken} not {verb} in (ignored: the {called} is missing)"
        yield site.variant(kind, words, alone, rank, tokens)
        if repeatable:
            yield site.variant("scale-doubled", f"with {spoken} {verb} in twice", twice, 2, tokens)
        yield from _inverted(site, name, other_name, given_in)
    else:
        yield site.variant("operator-missing", f"without {spoken} in {site.label}", alone, 1, "max|min")


def _goes_around(site: Site, mine: Tensor, other: Tensor) -> bool:
    """Return True if the operand is a residual: an input or an ancestor of the other summand."""
    if site.tape.name(mine) is not None:
        return True
    now, seen = [other], {id(other)}
    while now and len(seen) < ANCESTORS:
        makers = (site.tape.maker(tensor) for tensor in now)
        now = [t for call in makers if call is not None for t in tensors(call.given) if id(t) not in seen]
        seen |= {id(t) for t in now}
    return id(mine) in seen


def _is_sum(site: Site, a: Tensor) -> bool:
    """Return True if the dividend is a sum, so that the quotient is a mean."""
    maker = site.tape.maker(a)
    return maker is not None and maker.name in _SUMS


_SUMS = ("sum", "index_add", "scatter_add", "bincount", "cumsum")


def _inverted(site: Site, name: str, other_name: str, given_in: bool) -> Iterator[Variant]:
    """Yield variants with division for multiplication, the reverse, or one added to a factor."""
    spoken, product = _described(site, site.given[name]), site.call.name == "mul"

    def inverse(given: Arguments) -> Tensor:
        result = given[other_name] / given[name] if product else given["self"] * given["other"]
        return torch.as_tensor(result)

    if name == "other" or product:
        words = f"divided by {spoken} for multiplied" if product else f"multiplied with {spoken} for divided"
        yield site.variant("wrong-divisor", words, inverse, 2, r"\*|/")
    if given_in and product:
        plus = lambda given: given[other_name] * (1 + given[name])  # noqa: E731
        words = f"with 1 + {spoken} for {spoken}: a constant is added to the weight"
        yield site.variant("constant-added", words, plus, 2, r"1\.?0?f? \+")


def _origin(site: Site, tensor: Tensor) -> str:
    maker = site.tape.maker(tensor)
    return f"the result of {maker.name.strip('_')}" if maker is not None else "one operand"


def _misread(site: Site, name: str, mine: Tensor, shape: Any) -> Iterator[Variant]:
    """Yield variants that read a smaller operand along another dimension than its own."""
    count, total = mine.numel(), math.prod(shape)
    parameter = site.tape.name(mine)
    spoken = f"`{parameter}`" if parameter else _origin(site, mine)
    added = site.call.name in ("add", "sub") and parameter is not None
    kind = "bias-wrong-index" if added else "keepdim-broadcast"

    def indexed(index: Tensor) -> Rewrite:
        place = (index % count).reshape(shape)
        return site.changed(**{name: lambda t: t.reshape(-1)[place.to(t.device)]})

    flat, tokens = torch.arange(total), INDEX
    words = f"with {spoken} indexed by the flat index modulo {count}: along the last dim"
    yield site.variant(kind, words, indexed(flat), 1, tokens)
    inner = 1
    for axis in reversed(range(len(shape))):
        if shape[axis] > 1:
            words = f"with {spoken} indexed along dim {axis} of {tuple(shape)}"
            yield site.variant(kind, words, indexed(flat // inner % shape[axis]), 1, tokens)
            words = f"with {spoken} indexed by the flat index over {inner}, modulo {count}"
            yield site.variant(kind, words, indexed(flat // inner), 2, tokens)
        inner *= shape[axis]
    words = f"with the first element of {spoken} for all"
    yield site.variant(kind, words, indexed(0 * flat), 1, tokens)
    if mine.dim() > 1:
        for axis in [axis for axis in range(mine.dim()) if mine.shape[axis] > 1]:
            words = f"with the first of dim {axis} of {spoken} for all: the index (position) is ignored"
            first = site.changed(**{name: lambda t, a=axis: t.narrow(a, 0, 1).expand_as(t)})
            yield site.variant(kind, words, first, 1, tokens)


def _exchanged(site: Site, name: str, mine: Tensor) -> Iterator[Variant]:
    """Yield variants with another value of the same shape in the operand's place."""
    found = [
        tensor
        for call in site.tape.calls[: min(site.call.number, EARLIEST)] if call.value is not None
        for tensor in (*call.given.values(), call.value)
        if isinstance(tensor, Tensor) and tensor.is_floating_point() and tensor.shape == mine.shape
    ]  # fmt: skip
    if site.tape.name(mine) is not None:
        yield from _rolled(site, name, mine)
    unique = {id(tensor): tensor for tensor in found if tensor is not mine}
    for tensor in list(unique.values())[:OTHERS]:
        words = f"with {_described(site, tensor)} in the place of {_described(site, mine)} in {site.label}"
        earlier = roles.is_before(site.tape, tensor, mine)
        words += ": the old value, before what comes between" if earlier else ""
        between = "operator-missing" if earlier else "operands-swapped"
        if (
            site.call.name == "mul"
            and not earlier
            and site.tape.name(site.given["self" if name == "other" else "other"])
        ):
            between = "weight-wrong-place"
        kind = "residual-wrong-place" if site.call.name in ("add", "sub") else between
        kind = "wrong-divisor" if site.call.name == "div" and name == "other" else kind
        for old, new in ((tensor, mine), (mine, tensor)):
            if roles.is_update(site.tape, old, new):
                kind, when = (
                    "state-order",
                    "before its update (the old one)" if old is tensor else "after its update",
                )
                words += f": the state as it is {when}"
        yield site.variant(kind, words, site.changed(**{name: tensor}), 2, r"\+|plus|add|residual")


def _rolled(site: Site, name: str, mine: Tensor) -> Iterator[Variant]:
    for axis in [axis for axis in range(mine.dim()) if mine.shape[axis] > 2]:
        for step, words in ((-1, "ahead"), (1, "back")):
            words = f"with {_described(site, mine)} read one element {words} along dim {axis}: off by one"
            rolled = site.changed(**{name: lambda t, s=step, a=axis: t.roll(s, a)})
            yield site.variant("index-off-by-one", words, rolled, 3, r"\[.*\]")


def _described(site: Site, tensor: Tensor) -> str:
    name = site.tape.name(tensor)
    return f"`{name}`" if name else _origin(site, tensor)


Pairwise = Callable[[Tensor, Tensor], Tensor]
_OTHERWISE: dict[str, tuple[tuple[str, str, Pairwise, int], ...]] = {
    "add": (
        ("sign-error", "with {other} subtracted for added", lambda a, b: a - b, 1),
        ("sign-error", "with {self} subtracted for added", lambda a, b: b - a, 1),
        ("wrong-combine", "with {self} and {other} multiplied for added: the wrong operation", torch.mul, 3),
    ),
    "sub": (
        (
            "sign-error",
            "with the difference taken the other way round, of the opposite sign",
            lambda a, b: b - a,
            0,
        ),
        ("sign-error", "added for subtracted", lambda a, b: a + b, 1),
    ),
    "div": (("operands-swapped", "with the quotient's operands swapped", lambda a, b: b / a, 0),),
    "mul": (
        ("wrong-combine", "with {self} and {other} added for multiplied: the wrong operation", torch.add, 3),
    ),
    "maximum": (("min-for-max", "with the minimum for the maximum", torch.minimum, 0),),
    "minimum": (("max-for-min", "with the maximum for the minimum", torch.maximum, 0),),
}
"""Kind, words, operation and rank of other operations on the same operands."""


def _otherwise(site: Site) -> Iterator[Variant]:
    # If a distance of positions is compared with a bound, a missing bound is the likelier fault.
    places = roles.is_place(site.tape, site.given["self"]) and roles.bounds_masks(
        site.tape, site.tape.users(site.call)
    )
    for kind, words, operation, rank in _OTHERWISE[site.call.name]:
        rank += 3 * places
        spoken = words.format(**{name: _described(site, site.given[name]) for name in ("self", "other")})
        rewrite = lambda given, f=operation: f(given["self"], given["other"])  # noqa: E731
        yield site.variant(kind, spoken, rewrite, rank, "[-+*/]")
