"""Search for the kernel at fault: with the values that it wrote, the reference gives the wrong output.

A match proves that the kernel's value is wrong and that all computation after it is right.
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
"""Maximum number of wrong values that are fed into the reference."""
ALIKE = 0.9
"""Minimum correlation between what a kernel wrote and the value that it probably stands for."""


class Wrong(NamedTuple):
    """A value that a kernel wrote wrongly."""

    writing: Writing
    value: Value
    given: Tensor
    """Elements that the kernel wrote, in the reference's layout, as float64."""


class Located(NamedTuple):
    """The wrong values that one kernel wrote, if all computation after it is right."""

    wrong: tuple[Wrong, ...]

    @property
    def launch(self) -> int:
        """Return the number of the kernel's first launch."""
        return self.wrong[0].writing.first


def first(
    tape: Tape,
    followed: Followed,
    held: dict[int, list[Held]],
    values: list[Value],
    target: tuple[int, Target],
    budget_s: float,
) -> Located | None:
    """Return the earliest wrong values of one kernel that explain the whole output.

    `target` is the first wrong output with its number; `budget_s` is in CPU seconds.
    """
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
    """Return a rewrite that gives what the kernel wrote in place of the call's first result."""

    def given(_: Arguments) -> object:
        made = wrong.value.call.result
        return wrong.given if isinstance(made, Tensor) else type(made)((wrong.given, *made[1:]))

    return given


def _together(known: list[Wrong]) -> Iterator[tuple[Wrong, ...]]:
    """Yield, for each kernel, all pieces that it wrote, each as its best-correlated value.

    Kernels with a repeated value are skipped.
    """
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
    """Return the correlation of what was written with the value."""
    both = torch.stack([wrong.given.reshape(-1), wrong.value.tensor.detach().double().reshape(-1)])
    if both.shape[1] < 2 or not bool(torch.isfinite(both).all()):
        return 0.0
    return float(torch.corrcoef(both)[0, 1].nan_to_num())


def _candidates(
    followed: Followed, held: dict[int, list[Held]], values: list[Value], wrong: Target
) -> Iterator[Wrong]:
    """Yield each piece that a kernel wrote with each value of equal size, in each layout that fits."""
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
