"""Search for a structure of unexplained errors: one number for each row of the output.

A wrong statistic, divisor or offset changes every element of its rows by the same factor or amount. The
structure is searched in the output, then in earlier values, as far as the final operators can be inverted.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import torch

from agent.diagnosis.mismatch import taking_back
from agent.diagnosis.mismatch.matching import Target
from agent.diagnosis.tape import Tape

Tensor = torch.Tensor
LEFT = 1e-6
"""Maximum share of the error that may remain after a fit, as a sum of squares."""
EACH = 4
"""Minimum number of elements of a row for each number fitted to it."""
MOST_DIMS = 5
DISTINCT = 1e-3
"""Difference below which fitted numbers count as equal, relative to the largest of them."""


class Fit(NamedTuple):
    """Fit that turns each row of the right output into the wrong one by a factor or an offset."""

    dims: tuple[int, ...]
    """Dimensions that distinguish rows; empty if everything is one row."""
    words: str
    left: float


def describe_structure(tape: Tape, number: int, target: Target) -> str | None:
    """Return a sentence on the structure of the errors of output `number`, or None if there is none."""
    y, truth = target.y.reshape(target.shape), target.truth.reshape(target.shape)
    fit = _best(y, truth)
    if fit is not None:
        return f"{_told(fit)}."
    for stage in taking_back.peel_operators(tape, number, y):
        fit = _best(stage.given, stage.value)
        if fit is not None:
            return f"Taken back to {stage.words}: {_told(fit)[0].lower()}{_told(fit)[1:]}."
    return None


def _best(y: Tensor, truth: Tensor) -> Fit | None:
    if not bool(torch.isfinite(y).all() and torch.isfinite(truth).all()) or y.dim() > MOST_DIMS:
        return None
    error = float((y - truth).square().sum())
    return next((fit for fit in _fits(y, truth) if fit.left <= LEFT * error), None)


def _told(fit: Fit) -> str:
    if not fit.dims:
        return f"All elements are {fit.words}"
    dims = ("dim " if len(fit.dims) == 1 else "dims ") + ", ".join(map(str, fit.dims))
    return f"For each index of {dims} all elements are {fit.words}: a number taken once for each is wrong"


def _fits(y: Tensor, truth: Tensor) -> Iterator[Fit]:
    """Yield fits of the right output to the wrong one, those with fewer fitted numbers first."""
    axes = [axis for axis in range(y.dim()) if y.shape[axis] > 1]
    for count in range(len(axes)):
        for dims in combinations(axes, count):
            rows = y.numel()
            for axis in dims:
                rows //= y.shape[axis]
            others = [axis for axis in range(y.dim()) if axis not in dims]
            if rows >= EACH:
                yield _factor(y, truth, dims, others)
                yield _offset(y, truth, dims, others)
            if rows >= 2 * EACH:
                yield _both(y, truth, dims, others)


def _factor(y: Tensor, truth: Tensor, dims: tuple[int, ...], others: list[int]) -> Fit:
    square = truth.square().sum(others, keepdim=True)
    factor = (y * truth).sum(others, keepdim=True) / square.clamp_min(1e-300)
    left = float((y - factor * truth).square().sum())
    return Fit(dims, f"the right ones times {_numbers(factor)}", left)


def _offset(y: Tensor, truth: Tensor, dims: tuple[int, ...], others: list[int]) -> Fit:
    offset = (y - truth).mean(others, keepdim=True)
    left = float((y - truth - offset).square().sum())
    return Fit(dims, f"the right ones plus {_numbers(offset)}", left)


def _both(y: Tensor, truth: Tensor, dims: tuple[int, ...], others: list[int]) -> Fit:
    mean, wanted = y.mean(others, keepdim=True), truth.mean(others, keepdim=True)
    square = (truth - wanted).square().sum(others, keepdim=True)
    factor = ((y - mean) * (truth - wanted)).sum(others, keepdim=True) / square.clamp_min(1e-300)
    offset = mean - factor * wanted
    left = float((y - factor * truth - offset).square().sum())
    return Fit(dims, f"the right ones times {_numbers(factor)}, plus {_numbers(offset)}", left)


def _numbers(values: Tensor) -> str:
    low, high = float(values.min()), float(values.max())
    return f"{low:.4g}" if high - low <= DISTINCT * max(abs(low), abs(high)) else f"{low:.3g} to {high:.3g}"
