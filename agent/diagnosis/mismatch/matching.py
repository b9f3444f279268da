"""Whether a candidate's output is that of a given wrong reference, to rounding.

An element matches where it is as close to the variant as the error budget lets a right answer be to the
truth. A sample of the elements is looked at first, since nearly all variants fail there. What agrees has to
tell the variant from others: an output of zeros is what truncation gives, and a ReLU, and a lost factor.
"""

import math
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import torch

Tensor = torch.Tensor
Limit = Callable[[Tensor, float], Tensor]
"""From values (flat) and their amplification against the truth to the error that is allowed around them; it
grows by equal steps with the amplification."""
SAMPLE = 512
EXPLAINED = 0.998
"""Share of the error, as a sum of squares, that a variant has to explain: it is closer than the truth is."""
BROKEN = 1e-3
"""Where the same elements are not finite, that agrees already: what overflows rounds badly beside it."""
REGION = 8
"""A match on the wrong elements alone counts where they are at least so many."""
PARTICULAR = 2
"""So many values that are no integers, all different, are not matched by chance: several hundred variants are
tried, and a number of float32 that agrees to 1e-4 by chance does so once in some thousand times."""
VARIED = 16
"""So many elements beside those of the commonest value are not either, integers though they be: at even odds
for each, by one variant in 65,536. Of fewer than twice as many elements half have to differ."""


COUNTED = 1 << 16
"""Of so many elements, evenly spread, the values are counted."""


class Match(NamedTuple):
    """How an output agrees with a variant's."""

    whole: bool
    """Everywhere; otherwise on the elements that are wrong, the others being right."""
    residual: float
    """Largest distance from the variant, over what agrees."""
    departure: float
    """Largest distance of the variant from the truth there: how much it explains."""
    telling: bool
    """Whether what agrees could hardly agree with another variant."""
    placed: bool
    """Whether it says which elements are wrong: everywhere, or those that are not finite."""
    size: float = 0.0
    """The largest element there, the right one or the variant's."""


class Target:
    """One output that is wrong."""

    def __init__(self, output: Tensor, truth: Tensor, limit: Limit | None) -> None:
        """`limit` None: values have to be equal."""
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
        """None where even the wrong elements are not the variant's.

        `sampled`: what the method of that name gives, where it is known.
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
        # Where numbers overflow the share is none, and nothing is explained.
        if not self._unexplained(v, where) <= 1 - EXPLAINED:
            return None
        error, departure = _largest(self.y - v, where), _largest(v - self.truth, where)
        size = max(_largest(self.truth, where), _largest(v, where))
        return Match(whole, error, departure, telling(self.y[where]), whole or not bool(finite.all()), size)

    def is_right(self, value: Tensor) -> bool:
        """Whether the output, which is right, is also this."""
        v = value.detach().reshape(-1).double()
        return bool(self._near(v, self.y).all())

    def sampled(self, value: Tensor) -> Tensor:
        """Some elements, wrong ones and others."""
        return value.detach().reshape(-1)[self._chosen].double()

    def nearness(self, v: Tensor) -> float:
        """Share of the error that the variant explains, as a sum of squares; negative where it is worse.

        `v` is what is `sampled` of it.
        """
        finite = self._finite
        if not torch.equal(finite, torch.isfinite(v)):
            return -1.0
        return float(1 - (self._known[0] - v)[finite].square().sum() / self._own)

    def _unexplained(self, v: Tensor, where: Tensor) -> float:
        """Share of the error against the truth that remains against the variant, where both are finite."""
        keep = where & torch.isfinite(self.y) & torch.isfinite(v)
        if not bool((keep & self.wrong).any()):
            # Only what is not finite is wrong; elsewhere there is no error to explain but rounding.
            return 0.0
        own = (self.y - self.truth.nan_to_num())[keep].square().sum()
        return float((self.y - v)[keep].square().sum() / own.clamp_min(1e-300)) if bool(own > 0) else 0.0

    def _close(self, here: Tensor, size: float, amplification: float) -> Tensor:
        # Row by row limits need whole rows, so that a sample is judged by a wider limit first.
        y = self._known[0][: self._first.numel()]
        allowed, more = self._widest
        width = (here.abs() + size) * 1e-2 + allowed + (amplification - 1) * more
        return ((y - here).abs() <= width) | (y == here) | (y.isnan() & here.isnan())

    @cached_property
    def _widest(self) -> tuple[float, float]:
        """The largest error allowed around the truth, and how much more with each amplification."""
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
    """Whether these flat values, all of which a wrong reference gives, could hardly be those of another.

    One number alone is enough where there is but one; a constant is not, unless it is not finite: few wrong
    references are.
    """
    if not bool(torch.isfinite(values).all()):
        return True
    some = _some(values)
    commonest = some.mode().values
    varied = int((some != commonest).sum())
    return fractions(some) >= min(PARTICULAR, some.numel()) or varied >= min(VARIED, (some.numel() + 1) // 2)


def fractions(values: Tensor) -> int:
    """How many different values are no integers, among some of the values where there are many."""
    some = _some(values)
    ordered = some[(some != some.round()) & torch.isfinite(some)].sort().values
    return int((ordered[1:] != ordered[:-1]).sum()) + (ordered.numel() > 0)


def _some(values: Tensor) -> Tensor:
    return values[:: max(1, values.numel() // COUNTED)]


def _picked(mask: Tensor) -> Tensor:
    """Up to SAMPLE places of a mask, evenly spread."""
    places = mask.nonzero().reshape(-1)
    return places[:: max(1, places.numel() // SAMPLE)]


def _rms(x: Tensor) -> float:
    """Of the finite values."""
    whole = float(torch.linalg.vector_norm(x))
    if math.isfinite(whole):
        return whole / math.sqrt(max(x.numel(), 1))
    finite = x[torch.isfinite(x)]
    return float(finite.square().mean().sqrt()) if finite.numel() else 0.0


def _largest(error: Tensor, where: Tensor) -> float:
    chosen = error[where].abs()
    chosen = chosen[torch.isfinite(chosen)]
    return float(chosen.max()) if chosen.numel() else 0.0
