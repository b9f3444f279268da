"""Faults of any operator: left out, applied twice, exchanged with its neighbour, or truncated."""

from collections.abc import Iterator
from typing import Any

import torch

from agent.diagnosis import roles
from agent.diagnosis.graph import Arguments, invoke, tensors
from agent.diagnosis.roles import is_mask
from agent.diagnosis.source_lines import INTEGER
from agent.diagnosis.tape import MOVES, Call
from agent.diagnosis.wrong_references.activations import ACTIVATIONS, spoken
from agent.diagnosis.wrong_references.rules import Site, Variant, rule

Tensor = torch.Tensor
_OWN_RULES = {
    "add",
    "sub",
    "mul",
    "div",
    "rsub",
    "flip",
    "roll",
    "where",
    "masked_fill",
    "tril",
    "triu",
    "clamp",
    "clamp_min",
    "clamp_max",
}
"""Operators whose own rules cover leaving them out."""


def operand_like(call: Call) -> str | None:
    """Return the name of an argument with the result's shape and dtype, or None."""
    if call.value is None:
        return None
    return next(
        (name for name, given in call.given.items()
         if isinstance(given, Tensor) and (given.shape, given.dtype) == (call.value.shape, call.value.dtype)),
        None,
    )  # fmt: skip


def _skipped(call: Call) -> bool:
    return (
        call.is_view
        or call.name in MOVES
        or call.name in ("expand", "empty", "zeros", "ones", "fill", "zero")
    )


@rule()
def _left_out_or_doubled(site: Site) -> Iterator[Variant]:
    call = site.call
    main = operand_like(call)
    if main is None or _skipped(call):
        return
    activation = call.name in ACTIVATIONS
    if call.name not in _OWN_RULES:
        kind = "activation-missing" if activation else "operator-missing"
        words = f"before {spoken(site)}: that operator is missing"
        yield site.variant(kind, words, site.first(lambda given: given[main].clone()), 1, "")
    if call.name not in ("add", "sub", "mul", "div"):

        def twice(given: Arguments) -> Tensor:
            once = invoke(call.func, given)
            once = once[0] if isinstance(once, tuple) else once
            again = invoke(call.func, given | {main: once})
            return torch.as_tensor(again[0] if isinstance(again, tuple) else again)

        yield site.variant("operator-doubled", f"with {spoken(site)} applied twice", site.first(twice), 2, "")


@rule()
def _exchanged(site: Site) -> Iterator[Variant]:
    """Yield variants with this operator and the next one in the opposite order."""
    first = site.call
    users = site.tape.users(first)
    main = operand_like(first)
    if main is None or _skipped(first) or len(users) != 1:
        return
    second, result = users[0], tensors(first.result)[0]
    taken = [name for name, given in second.given.items() if given is result]
    if len(taken) != 1 or _skipped(second) or second.value is None or second.value.shape != result.shape:
        return
    if first.func._schema.is_mutable or second.func._schema.is_mutable or isinstance(second.result, tuple):
        return

    def early(given: Arguments) -> Any:
        return site.first(lambda given: invoke(second.func, second.given | {taken[0]: given[main]}))(given)

    def late(given: Arguments) -> Any:
        result = invoke(first.func, first.given | {main: given[taken[0]]})
        return result[0] if isinstance(result, tuple) else result

    one, two = spoken(site), spoken(Site(second, site.tape, site.facts))
    words = f"with {two} before {one}: the reference's order is the other way round"
    masks = any(
        call.name == "mul" and any(is_mask(t) for t in tensors(call.given)) for call in (first, second)
    ) and not any("dim" in call.given for call in (first, second))
    kind = "mask-wrong-place" if masks else "activation-order"
    words += ", so that the mask comes in elsewhere" if masks else ""
    # A wrong number sometimes gives the same result and is the likelier fault, so the exchange ranks after
    # it.
    yield Variant(kind, words, {first.number: early, second.number: late}, 3)


@rule()
def _truncated(site: Site) -> Iterator[Variant]:
    if _skipped(site.call) or site.call.value is None:
        return
    name = spoken(site)
    words = f"with the result of {name} truncated to an integer"
    yield site.variant("truncated-to-integer", words, site.around(torch.trunc), 3, INTEGER)
    kind, words = "truncated-to-integer", f"with the result of {name} rounded to an integer"
    if roles.becomes_whole(site.tape, site.call):
        kind, words = "wrong-rounding", f"{words}: to the nearest, not down"
    yield site.variant(kind, words, site.around(torch.round), 3, INTEGER)
