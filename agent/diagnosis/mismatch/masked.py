"""Search for a final mask of the reference that the candidate does not apply.

If the wrong elements are those that a mask sets to one number and all others are right, the mask is not
applied. The values that the candidate wrote to masked elements do not matter.
"""

from collections.abc import Iterator
from functools import partial

import torch

from agent.diagnosis import roles
from agent.diagnosis.graph import Arguments, tensors
from agent.diagnosis.mismatch.matching import Target
from agent.diagnosis.tape import Call, Tape

Tensor = torch.Tensor
LEAST = 8
"""Minimum number of wrong elements for the claim that a mask is not applied."""
SHARE = 0.9
"""Minimum wrong share of the masked elements; a shifted mask is only wrong at its border."""


def find_unapplied_mask(tape: Tape, number: int, target: Target) -> tuple[str, str] | None:
    """Return kind and words for the mask of output `number` that is not applied, or None."""
    wrong = target.wrong
    if int(wrong.sum()) < LEAST or bool(wrong.all()):
        return None
    for call in _last_masks(tape, number):
        filled = _filled(tape, call, number)
        if filled is None or bool((wrong & ~filled).any()) or int(wrong.sum()) < SHARE * int(filled.sum()):
            continue
        held, line = target.y[filled & wrong], f" (`{call.place.text}`)" if call.place else ""
        right = float(target.truth[filled][0])
        if bool((held == held[0]).all()):
            words = (
                f"what the mask of {call.name}{line} fills with {right:g} is filled with {float(held[0]):g}"
            )
            return "wrong-fill-value", words
        words = (
            f"the wrong elements are those that the mask of {call.name}{line} sets to {right:g}: they hold "
        )
        return "mask-ignored", words + "other values, so that the mask is not applied (ignored) there"
    return None


def _last_masks(tape: Tape, number: int) -> Iterator[Call]:
    """Yield the calls that mask the output, with no computation after them."""
    value = tensors(tape.result)[number]
    for _ in range(2):
        call, _leaf = roles.source(tape, value)
        if call is None or not roles.masks(tape, call):
            return
        yield call
        operands = [t for t in tensors(call.given) if not roles.from_condition(tape, t) and t.dim()]
        if not operands:
            return
        value = operands[0]


def _filled(tape: Tape, call: Call, number: int) -> Tensor | None:
    """Return a flat mask of the output elements that the call fills with one number, or None."""
    value = call.value
    condition = next((t for t in tensors(call.given) if roles.from_condition(tape, t)), None)
    if value is None or condition is None:
        return None
    true = (condition != 0).expand(value.shape)
    for mask in (true, ~true):
        known = value[mask]
        if known.numel() and bool((known == known[0]).all()) and bool(torch.isfinite(known[0])):
            marked = {call.number: partial(_instead, mask.to(value.dtype))}
            return tensors(tape.again(marked))[number].reshape(-1) != 0
    return None


def _instead(value: Tensor, given: Arguments) -> Tensor:
    return value
