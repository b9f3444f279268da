"""Faults of order between an elementwise function and the reduction before or after it."""

from collections.abc import Iterator
from typing import Any

import torch

from agent.diagnosis.graph import Arguments, invoke, tensors
from agent.diagnosis.roles import is_mask
from agent.diagnosis.tape import MOVES, Call
from agent.diagnosis.wrong_references.activations import spoken
from agent.diagnosis.wrong_references.rules import Site, Variant, rule
from agent.diagnosis.wrong_references.steps import operand_like

Tensor = torch.Tensor
_REDUCTIONS = ("mean", "sum", "amax", "amin", "max", "min", "prod", "logsumexp", "linalg_vector_norm")


@rule(*_REDUCTIONS)
def _reduced_first(site: Site) -> Iterator[Variant]:
    """Yield variants that apply the elementwise function before the reduction only after it."""
    result = site.call.result
    before = site.tape.maker(site.given["self"])
    if before is None or not isinstance(result, Tensor) or not _is_function(before):
        return
    operand = operand_like(before)
    if operand is None or len(site.tape.users(before)) != 1:
        return

    def early(given: Arguments) -> Any:
        return given[operand].clone()

    def late(given: Arguments) -> Any:
        return invoke(before.func, before.given | {operand: site.changed()(given)})

    one = spoken(Site(before, site.tape, site.facts))
    words = f"with {one} after {site.label}: the reference applies it to each element before"
    yield Variant("activation-order", words, {before.number: early, site.call.number: late}, 2)


@rule(*_REDUCTIONS)
def _reduced_last(site: Site) -> Iterator[Variant]:
    """Yield variants that apply the function of a reduction's result to each element before the reduction."""
    result = site.call.result
    users = site.tape.users(site.call)
    if not isinstance(result, Tensor) or len(users) != 1 or not _is_function(users[0]):
        return
    after = users[0]
    operand = operand_like(after)
    if operand is None or after.given[operand] is not result:
        return

    def early(given: Arguments) -> Any:
        changed = invoke(after.func, after.given | {operand: given["self"]})
        return site.changed(self=changed)(given)

    def late(given: Arguments) -> Any:
        return given[operand].clone()

    if is_mask(site.given["self"]) and after.name.startswith("clamp"):
        # A mask clamped from below to one counts every element.
        words = (
            f"with the mask ignored in {site.label}: divided by the count of all, padding and all (length)"
        )
        yield site.variant("wrong-divisor", words, site.changed(self=torch.ones_like), 0, "/|count")
        return
    two = spoken(Site(after, site.tape, site.facts))
    words = f"with {two} before {site.label}: the reference applies it to the result"
    yield Variant("activation-order", words, {site.call.number: early, after.number: late}, 2)


def _is_function(call: Call) -> bool:
    """Return True if the call is an elementwise function of one tensor."""
    operands = [t for t in tensors(call.given) if t.dim()]
    plain = not call.is_view and call.name not in MOVES and not call.func._schema.is_mutable
    return plain and len(operands) == 1 and call.name not in _ALONG and isinstance(call.result, Tensor)


_ALONG = {
    "_softmax",
    "_log_softmax",
    "flip",
    "roll",
    "cumsum",
    "cumprod",
    "logcumsumexp",
    "tril",
    "triu",
    *_REDUCTIONS,
}
"""Operators whose elements depend on each other or on their position."""
