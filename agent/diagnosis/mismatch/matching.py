"""Comparison of a candidate's output with that of a wrong reference, up to rounding.

An element matches if it is as close to the variant as the error budget allows a right answer to be to the
truth. A sample of the elements is compared first, since nearly all variants fail there. The matching values
also have to be telling, that is, unlikely under other faults: truncation, a ReLU or a lost factor can all
give zeros.
"""

import math
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import torch

Tensor = torch.Tensor
Limit = Callable[[Tensor, float], Tensor]
"""Function from flat values and their amplification against the truth to the allowed error.

The allowed error grows linearly with the amplification.
"""
SAMPLE = 512
EXPLAINED = 0.998
"""Minimum share of the error, as a sum of squares, that a variant has to explain."""
BROKEN = 1e-3
"""Relative tolerance of finite elements if the same elements are non-finite in output and variant.

Values near overflow round badly.
"""
REGION = 8
"""Minimum number of wrong elements for a match on these alone."""
PARTICULAR = 2
"""Minimum number of different non-integer values that make a match telling.

Several hundred variants are tried, and a float32 number agrees to 1e-4 by chance once in some thousand times.
"""
VARIED = 16
"""Minimum number of elements unlike the commonest value that make a match telling, integers included.

At even odds for each, one variant in 65,536 matches by chance. If the output has fewer than twice as many
elements, half of them have to differ.
"""


COUNTED = 1 << 16
"""Approximate number of evenly spread elements whose values are counted."""


class Match(NamedTuple):
    """Agreement of the candidate's output with that of a variant, a wrong reference."""

    whole: bool
    """True if the output agrees everywhere; otherwise it agrees on the wrong elements only."""
    residual: float
    """Largest distance between output and variant where they agree."""
    departure: float
    """Largest distance between variant and truth where output and variant agree: the error that is explained.
    """
    telling: bool
    """True if the agreeing values would hardly agree with another variant."""
    placed: bool
    """True if the match determines the wrong elements: it is whole, or some elements are not finite."""
    size: float = 0.0
    """Largest magnitude of truth or variant where output and variant agree."""


class Target:
    """An output of the candidate with the truth and the allowed error."""

    def __init__(self, output: Tensor, truth: Tensor, limit: Limit | None) -> None:
        """Compare output and truth; with `limit` None, values have to be equal."""
        self.shape, self.dtype = output.shape, output.dtype
        self.y, self.truth = output.detach().reshape(-1).double(), truth.detach().reshape(-1).double()
        self._limit = limit
        self._size = _rms(self.truth)
        self.wrong = ~self._near(self.truth, self.y)
        self.count = int(self.wrong.sum())
        self._first, self._others = _picked(self.wrong), _picked(~self.wrong)
        self._chosen = torch.cat([self._first, self._others])
        self._known = self.y[self._chosen], self.truth[self._chosen]
        self._finite = torch.isfinite(self._known[0])
        self._own = (
            (self._known[0] - self._known[1].nan_to_num())[self._finite].square().sum().clamp_min(1e-300)
        )

    def match(self, value: Tensor, sampled: Tensor | None = None) -> Match | None:
        """Return the match with a variant; None if even the wrong elements differ from it.

        `sampled` is the result of the method `sampled` for the variant, if known.
        """
        if value.numel() != self.y.numel():
            return None
        v = value.detach().reshape(-1).double()
        here = (self.sampled(v) if sampled is None else sampled)[: self._first.numel()]
        size = _rms(v)
        amplification = max(size / self._size, 1.0) if self._size else 1.0
        if not bool(self._close(here, size, amplification).all()):
            return None
        near = self._near(v, self.y, amplification)
        finite = torch.isfinite(self.y)
        if not bool(finite.all()) and torch.equal(finite, torch.isfinite(v)):
            near |= finite & ((self.y - v).abs() <= BROKEN * (v.abs() + self._size))
        if not bool(near[self.wrong].all()):
            return None
        whole = bool(near.all())
        if not whole and self.count < REGION:
            return None
        where = near if whole else self.wrong
        # On overflow the share is NaN, which explains nothing.
        if not self._unexplained(v, where) <= 1 - EXPLAINED:
            return None
        error, departure = _largest(self.y - v, where), _largest(v - self.truth, where)
        size = max(_largest(self.truth, where), _largest(v, where))
        return Match(whole, error, departure, telling(self.y[where]), whole or not bool(finite.all()), size)

    def is_right(self, value: Tensor) -> bool:
        """Return True if the output, which is right, also equals `value`."""
        v = value.detach().reshape(-1).double()
        return bool(self._near(v, self.y).all())

    def sampled(self, value: Tensor) -> Tensor:
        """Return a variant's values at a fixed sample of wrong and right elements."""
        return value.detach().reshape(-1)[self._chosen].double()

    def nearness(self, v: Tensor) -> float:
        """Return the share of the error that the variant explains, as a sum of squares.

        The share is negative if the variant is worse. `v` is the result of `sampled` for the variant.
        """
        finite = self._finite
        if not torch.equal(finite, torch.isfinite(v)):
            return -1.0
        return float(1 - (self._known[0] - v)[finite].square().sum() / self._own)

    def _unexplained(self, v: Tensor, where: Tensor) -> float:
        """Return the share of the error that remains against the variant, over finite values."""
        keep = where & torch.isfinite(self.y) & torch.isfinite(v)
        if not bool((keep & self.wrong).any()):
            # Only non-finite elements are wrong; elsewhere there is no error to explain but rounding.
            return 0.0
        own = (self.y - self.truth.nan_to_num())[keep].square().sum()
        return float((self.y - v)[keep].square().sum() / own.clamp_min(1e-300)) if bool(own > 0) else 0.0

    def _close(self, here: Tensor, size: float, amplification: float) -> Tensor:
        # Limits that depend on rows need whole rows, so a sample is first judged by a wider limit.
        y = self._known[0][: self._first.numel()]
        allowed, more = self._widest
        width = (here.abs() + size) * 1e-2 + allowed + (amplification - 1) * more
        return ((y - here).abs() <= width) | (y == here) | (y.isnan() & here.isnan())

    @cached_property
    def _widest(self) -> tuple[float, float]:
        """Return the largest error allowed around the truth, and its growth per unit of amplification."""
        if self._limit is None:
            return 0.0, 0.0
        truth = self.truth.nan_to_num()
        once, twice = (float(self._limit(truth, amplification).max()) for amplification in (1.0, 2.0))
        return once, twice - once

    def _near(self, v: Tensor, y: Tensor, amplification: float = 1.0) -> Tensor:
        same = (y == v) | (y.isnan() & v.isnan())
        if self._limit is None:
            return same
        return same | ((y - v).abs() <= self._limit(v.nan_to_num(posinf=0.0, neginf=0.0), amplification))


def telling(values: Tensor) -> bool:
    """Return True if another wrong reference would hardly give the same flat values.

    A single number is enough if the output has only one element. A constant is not enough, unless it is
    non-finite, which few wrong references are.
    """
    if not bool(torch.isfinite(values).all()):
        return True
    some = _some(values)
    commonest = some.mode().values
    varied = int((some != commonest).sum())
    return fractions(some) >= min(PARTICULAR, some.numel()) or varied >= min(VARIED, (some.numel() + 1) // 2)


def fractions(values: Tensor) -> int:
    """Count the different non-integer values, in a sample if there are many values."""
    some = _some(values)
    ordered = some[(some != some.round()) & torch.isfinite(some)].sort().values
    return int((ordered[1:] != ordered[:-1]).sum()) + (ordered.numel() > 0)


def _some(values: Tensor) -> Tensor:
    return values[:: max(1, values.numel() // COUNTED)]


def _picked(mask: Tensor) -> Tensor:
    """Return evenly spread positions of a mask, about SAMPLE of them."""
    places = mask.nonzero().reshape(-1)
    return places[:: max(1, places.numel() // SAMPLE)]


def _rms(x: Tensor) -> float:
    """Return the rms of the finite values."""
    whole = float(torch.linalg.vector_norm(x))
    if math.isfinite(whole):
        return whole / math.sqrt(max(x.numel(), 1))
    finite = x[torch.isfinite(x)]
    return float(finite.square().mean().sqrt()) if finite.numel() else 0.0


def _largest(error: Tensor, where: Tensor) -> float:
    chosen = error[where].abs()
    chosen = chosen[torch.isfinite(chosen)]
    return float(chosen.max()) if chosen.numel() else 0.0
