"""Fit of the reference's constants to a wrong output by Newton's method.

The fit serves wrong numbers that do not stand in the candidate's source. One number is fitted at a time. All
elements have to agree with the fit, which confirms the cause.
"""

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from agent.diagnosis import roles
from agent.diagnosis.graph import invoke, tensors
from agent.diagnosis.mismatch.case import Hypothesis
from agent.diagnosis.mismatch.matching import Target
from agent.diagnosis.tape import Call, Tape

RANK = 8
"""Rank of fitted constants, after unlikely slips, since fitted constants also match many other faults."""
LEAST = 16
"""Minimum number of elements for an arbitrary fitted number to count."""
STEPS = 6
_CHANGED_BY = 1e-3
_KINDS = {
    "eps": "wrong-eps",
    "negative_slope": "wrong-slope",
    "alpha": "wrong-slope",
    "beta": "wrong-slope",
    "delta": "wrong-slope",
    "threshold": "wrong-slope",
    "min": "clamp-bounds",
    "max": "clamp-bounds",
    "min_val": "clamp-bounds",
    "max_val": "clamp-bounds",
    "exponent": "wrong-activation",
}
_BY_OPERATOR = {
    "mul": "wrong-divisor",
    "div": "wrong-divisor",
    "add": "constant-added",
    "sub": "constant-added",
}


_OPERANDS = {"mul": "factor", "div": "divisor", "add": "summand", "sub": "subtrahend"}
DIGITS = 2
"""Maximum significant digits of a constant as a programmer would write it.

A fitted value within the relative distance `FITTED` of a number with so few digits counts as that number.
"""
NOTHING = 1e-6
"""Ratio to the right factor below which a fitted factor counts as zero."""
FITTED = 2e-4


class _Place(NamedTuple):
    """One number argument of an operator, shared by the same instruction in every step of a loop."""

    call: Call
    steps: tuple[Call, ...]
    name: str
    value: float
    kind: str


def fitted(tape: Tape, number: int, target: Target) -> Iterator[Hypothesis]:
    """Yield hypotheses, one for each constant with the value that brings output `number` closest."""
    if not bool(torch.isfinite(target.y).all()):
        return
    for place in _places(tape):
        value = None
        with contextlib.suppress(RuntimeError, LookupError, ValueError, TypeError):
            # A number that sets an index or a shape cannot be varied by a small step.
            value = _fit(tape, place, number, target)
        if value is not None and target.y.numel() < LEAST:
            # With few elements, every constant can be fitted, so only a value with few digits counts.
            value = _written(value)
        if value is not None and value != place.value:
            operator = place.call.name.strip("_")
            spoken = "eps" if place.kind == "wrong-eps" else place.name.replace("_", " ")
            spoken = _OPERANDS.get(operator, spoken) if place.name == "other" else spoken
            words, kind = f"with {value:.6g} for {place.value:g} as the {spoken} of {operator}", place.kind
            if operator in ("add", "sub") and roles.counts_places(tape, place.call.given.get("self")):
                kind, words = "index-off-by-one", f"{words}: places are counted from another one"
            if operator == "mul" and abs(value) <= NOTHING * abs(place.value):
                kind, value = "operator-missing", 0.0
                words = f"with zero for {place.value:g} as the factor of {operator}: that term is left out"
            yield Hypothesis(kind, words, lambda p=place, v=value: _at(tape, p, v), RANK)  # type: ignore[misc]


def _places(tape: Tape) -> Iterator[_Place]:
    steps: dict[Any, list[Call]] = {}
    for call in tape.calls:
        steps.setdefault((call.place or call.number, call.func), []).append(call)
    for calls in steps.values():
        call = calls[0]
        for name, value in call.given.items():
            number = isinstance(value, float) or (isinstance(value, int) and not isinstance(value, bool))
            kind = _KINDS.get(name) or (_BY_OPERATOR.get(call.name) if name == "other" else None)
            if (
                not number
                or any(other.given.get(name) != value for other in calls)
                or kind is None
                or (name in ("alpha", "beta") and call.name in ("add", "sub", "rsub", "addmm"))
            ):
                continue
            rooted = any(user.name in ("sqrt", "rsqrt") for user in tape.users(call))
            yield _Place(
                call, tuple(calls), name, float(value), "wrong-eps" if call.name == "add" and rooted else kind
            )


def _written(value: float) -> float | None:
    """Return the number of few digits that equals the value up to rounding, or None."""
    short = float(f"{value:.{DIGITS}g}")
    return short if short and abs(value - short) <= FITTED * abs(short) else None


def _at(tape: Tape, place: _Place, value: float) -> list[torch.Tensor]:
    def run(given: dict[str, Any]) -> Any:
        return invoke(place.call.func, given | {place.name: value})

    return tensors(tape.again({call.number: run for call in place.steps}))


def _fit(tape: Tape, place: _Place, number: int, target: Target) -> float | None:
    """Return the value fitted by Gauss-Newton; None if the fit diverges or stays at the reference's value."""
    value = place.value
    for _ in range(STEPS):
        step = _CHANGED_BY * (abs(value) or 1.0)
        here = _at(tape, place, value)[number].reshape(-1)
        slope = (_at(tape, place, value + step)[number].reshape(-1) - here) / step
        move = float((slope * (target.y - here)).sum() / slope.square().sum().clamp_min(1e-300))
        if not abs(move) < 1e6:
            return None
        value += move
        if abs(move) <= 1e-7 * abs(value):
            break
    return value if abs(value - place.value) > 1e-4 * max(abs(place.value), 1e-12) else None
