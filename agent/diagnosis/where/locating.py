"""Which kernel makes the error: with what it wrote for a value, the reference gives the wrong output.

That is no guess: whatever follows that value is right then, and the value is not.
"""

import time
from collections.abc import Iterator
from typing import NamedTuple

import torch

from agent.diagnosis.graph import Arguments, Rewrite, tensors
from agent.diagnosis.mismatch.matching import Target
from agent.diagnosis.mismatch.searching import FAILING
from agent.diagnosis.tape import Tape
from agent.diagnosis.where import kernel_values
from agent.diagnosis.where.following import Followed, Writing
from agent.diagnosis.where.kernel_values import CLOSE, FLOATS, Held
from agent.diagnosis.where.values import Value

Tensor = torch.Tensor
MOST = 200
"""Values that are tried."""
ALIKE = 0.9
"""Correlation of what a kernel wrote with a value for which it may be meant."""


class Wrong(NamedTuple):
    """A value that a kernel wrote wrongly."""

    writing: Writing
    value: Value
    given: Tensor
    """What the kernel wrote, in the reference's layout, in float64."""


class Located(NamedTuple):
    """The values that one kernel wrote wrongly, while all that follows is right."""

    wrong: tuple[Wrong, ...]

    @property
    def launch(self) -> int:
        """The number of the kernel's first launch."""
        return self.wrong[0].writing.first


def first(
    tape: Tape,
    followed: Followed,
    held: dict[int, list[Held]],
    values: list[Value],
    target: tuple[int, Target],
    budget_s: float,
) -> Located | None:
    """The earliest that explains the whole output; `target`: the first wrong one, by number."""
    until, tried = time.thread_time() + budget_s, 0
    number, output = target
    known = list(_candidates(followed, held, values, output))
    for wrong in (*((one,) for one in known), *_together(known)):
        if tried == MOST or time.thread_time() > until:
            return None
        tried += 1
        try:
            found = output.match(
                tensors(tape.again({one.value.call.number: _instead(one) for one in wrong}))[number]
            )
        except FAILING:
            continue
        if found is not None and found.whole and found.telling:
            return Located(wrong)
    return None


def _instead(wrong: Wrong) -> Rewrite:
    """What the kernel wrote, in place of the call's first result."""

    def given(_: Arguments) -> object:
        made = wrong.value.call.result
        return wrong.given if isinstance(made, Tensor) else type(made)((wrong.given, *made[1:]))

    return given


def _together(known: list[Wrong]) -> Iterator[tuple[Wrong, ...]]:
    """For each kernel all that it wrote, each piece as the value that it is most like; each value once."""
    for launch in dict.fromkeys(one.writing.first for one in known):
        best: dict[int, tuple[float, Wrong]] = {}
        for one in (one for one in known if one.writing.first == launch):
            likeness = _likeness(one)
            if likeness > max(ALIKE, best.get(one.writing.piece, (0.0, one))[0]):
                best[one.writing.piece] = likeness, one
        chosen = tuple(one for _, one in best.values())
        if len(chosen) > 1 and len({one.value.call.number for one in chosen}) == len(chosen):
            yield chosen


def _likeness(wrong: Wrong) -> float:
    """The correlation of what was written with the value."""
    both = torch.stack([wrong.given.reshape(-1), wrong.value.tensor.detach().double().reshape(-1)])
    if both.shape[1] < 2 or not bool(torch.isfinite(both).all()):
        return 0.0
    return float(torch.corrcoef(both)[0, 1].nan_to_num())


def _candidates(
    followed: Followed, held: dict[int, list[Held]], values: list[Value], wrong: Target
) -> Iterator[Wrong]:
    """What a kernel wrote beside each value of as many elements, in each layout that fits."""
    replaceable = [v for v in values if v.is_result and v.tensor.is_floating_point()]
    for number, writing in enumerate(followed.writings):
        if held[number]:
            continue
        for dtype in FLOATS:
            elements = writing.elements(dtype)
            if elements is None or not bool(torch.isfinite(elements).any()):
                continue
            w = elements.double()
            if w.numel() == wrong.y.numel() and torch.equal(w.nan_to_num(), wrong.y.nan_to_num()):
                break  # the output itself
            for value in replaceable:
                if value.tensor.numel() == w.numel():
                    yield from (
                        Wrong(writing, value, given)
                        for given in kernel_values.laid_out(w, value.tensor, CLOSE[dtype])
                    )
