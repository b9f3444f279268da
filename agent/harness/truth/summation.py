"""Orders of summation: `total` sums over dimensions in the order set by `taken`.

There are three orders. `Strips` adds up to 256 partial sums, last to first, as blocks do. `OneByOne` gives
sums the error that adding one term after the other may cause, as with float atomics. `Short` rounds partial
sums to a shorter dtype. It is not a right order and makes wrong answers for admission.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

STRIPS = 256
"""Maximum number of strips of a reduction, whose partial sums are added one after the other."""
FEW = 64
"""Maximum number of results of a reduction that counts as having few results.

Kernels may add all terms to few results by atomics. The errors of few results may be near 0 by chance.
"""
MANY = 1 << 26
"""Minimum number of terms whose squares are computed strip by strip, to save memory."""
LINKS = 1 << 22
"""Maximum number of additions in sequence. Longer sums first add groups of terms.

4 million is one atomic for each block of 256 threads over 2^30 values.
"""
USELESS = 1e-3
"""Maximum error of a sum in sequence, relative to its terms' total magnitude, for the order to be right."""


class Strips:
    def __init__(self) -> None:
        self.few = False
        """True if a reduction had few results (`FEW`)."""

    def __call__(self, flat: torch.Tensor, divisor: float = 1.0) -> torch.Tensor:
        """Return the sum over the last dimension, in float32 for shorter dtypes.

        `divisor` has the meaning it has in `total`.
        """
        return self._in_strips(flat, wide)

    def of_squares(self, flat: torch.Tensor, divisor: float) -> torch.Tensor:
        """Return the sum of squares over the last dimension, without keeping the squares of many terms."""
        if flat.numel() < MANY or type(self) is not Strips:
            return self(wide(flat).square(), divisor)
        return self._in_strips(flat, lambda part: wide(part).square())

    def _in_strips(self, flat: torch.Tensor, terms: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        self.few |= flat.shape[-1] > 2 and flat.numel() <= FEW * flat.shape[-1]
        parts = (terms(flat[..., strip]).sum(-1) for strip in strips(flat.shape[-1], STRIPS))
        result = next(parts)
        for part in parts:
            result = result + part
        return result


class OneByOne(Strips):
    """Order that adds to each of few sums the error that float32 additions in sequence may cause.

    The error is estimated from w, the largest error of the running float32 sum, forwards and backwards. The
    final error may be small by chance, but w is not. 1,060 sums of 10^3 to 10^6 random values in random
    orders ended within 3.3 w in 99 % of cases, and all within 5.2 w. Systematic rounding, as of equal or
    small values that round alike, is nearly equal in every order. The allowance is therefore 2 w plus five
    deviations of the additions' random roundings, and never more than 6 w. Each rounding deviates by ulp(sum)
    / sqrt(12), which is 0.42 u |sum| on average.

    A mean may also be summed from terms that are divided first, with other rounding errors. A thousand ones
    sum to exactly 1000, but a thousand times float32(1/1000) is not 1. If the sum is divided by a `divisor`
    above 1, the error is therefore measured again for the terms times float32(1 / divisor), against the
    float64 sum of the terms over the divisor. The larger error is allowed. Divided terms never count towards
    `lost`, and errors of more than `USELESS` are not allowed for them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lost = 0.0
        """Largest error of a sum relative to the total magnitude of its terms."""

    def __call__(self, flat: torch.Tensor, divisor: float = 1.0) -> torch.Tensor:
        count = flat.shape[-1]
        if flat.dtype is torch.float64 or flat.numel() > FEW * count:
            return super().__call__(flat)
        terms = _links(flat).cpu().numpy()
        magnitude = np.abs(terms, dtype=np.float64).sum(-1)
        if not np.isfinite(magnitude).all():
            return super().__call__(flat)
        off, lost = _allowed(terms, terms, magnitude)
        self.lost = max(self.lost, float(lost.max(initial=0.0)))
        if 1.0 < divisor < math.inf:
            divided = terms * np.float32(1 / divisor)
            more, lost = _allowed(divided, terms / np.float64(divisor), magnitude / divisor)
            off = np.maximum(off, np.where(lost <= USELESS, more * divisor, 0.0))
        return torch.from_numpy(np.asarray(terms.sum(-1, dtype=np.float64) + off)).float().to(flat.device)


class Short(Strips):
    """Order that rounds partial sums to `dtype`, for wrong answers."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self._dtype = dtype

    def __call__(self, flat: torch.Tensor, divisor: float = 1.0) -> torch.Tensor:
        result = torch.zeros(flat.shape[:-1], dtype=self._dtype, device=flat.device)
        for strip in strips(flat.shape[-1], STRIPS):
            result = (result.to(flat.dtype) + flat[..., strip].sum(-1)).to(self._dtype)
        return result.to(flat.dtype)


_in_force: list[Strips] = [Strips()]


@contextmanager
def taken(order: Strips) -> Iterator[None]:
    """Take all sums within this context in `order`."""
    _in_force.append(order)
    try:
        yield
    finally:
        _in_force.pop()


def total(
    x: torch.Tensor, dim: Any, keepdim: bool = False, divisor: float = 1.0, *, squared: bool = False
) -> torch.Tensor:
    """Return the sum over `dim` (None for all) in the order set by `taken`, in float32 for shorter dtypes.

    `divisor` is the number by which the caller divides the sum; a kernel may divide each term instead.
    With `squared`, the squares are summed.
    """
    along = axes(x, dim)
    shape = [1 if axis in along else size for axis, size in enumerate(x.shape)]
    flat = x.movedim(along, list(range(-len(along), 0))).flatten(-len(along)) if along else x.unsqueeze(-1)
    order = _in_force[-1]
    result = order.of_squares(flat, divisor) if squared else order(flat, divisor)
    return result.reshape(shape) if keepdim else result


def running(x: torch.Tensor, dim: int, product: bool = False) -> torch.Tensor:
    """Return running sums or products along `dim`, computed in float32 one value after the other.

    This is the order of a kernel with one thread for each row.
    """
    if x.dim() == 0 or x.numel() == 0:
        return x.clone()
    given = wide(x)
    if not x.is_cuda:
        step = np.multiply if product else np.add
        with np.errstate(all="ignore"):
            return torch.from_numpy(step.accumulate(given.numpy(), axis=dim)).to(x.dtype)
    result = given.clone()
    for place in range(1, x.shape[dim]):
        before, here = result.select(dim, place - 1), result.select(dim, place)
        here.mul_(before) if product else here.add_(before)
    return result.to(x.dtype)


def wide(x: torch.Tensor) -> torch.Tensor:
    """Return `x` in float32 if its dtype is shorter."""
    return x.float() if x.element_size() < 4 else x


def strips(size: int, most: int) -> Iterator[slice]:
    """Yield up to `most` equal parts of a dimension, last to first."""
    step = max(1, math.ceil(size / most))
    for begin in reversed(range(0, size, step)):
        yield slice(begin, begin + step)


def axes(x: torch.Tensor, dim: Any) -> list[int]:
    """Return the dimensions that `dim` names, or all of them for None."""
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return list(range(x.dim()))
    return [axis % max(x.dim(), 1) for axis in (dim if isinstance(dim, (list, tuple)) else [dim])]


def _links(flat: torch.Tensor) -> torch.Tensor:
    """Return the values to add in sequence: the terms, or sums of groups if there are too many terms."""
    given, count = wide(flat), flat.shape[-1]
    group = math.ceil(flat.numel() / LINKS)
    if group == 1:
        return given
    whole = count // group * group
    parts = [given[..., :whole].reshape(*flat.shape[:-1], -1, group).sum(-1)]
    return torch.cat([*parts, given[..., whole:].sum(-1, keepdim=True)], -1)


def _allowed(terms: Any, exact: Any, magnitude: Any) -> tuple[Any, Any]:
    """Return the allowed error of each row's sum of float32 `terms` in sequence, and the relative error.

    Errors are differences from the sums of the `exact` terms. The relative error is the largest error of the
    running sum, divided by `magnitude`.
    """
    (there, chance), (back, chance_back) = _losses(terms, exact), _losses(terms[..., ::-1], exact[..., ::-1])
    worst, chance = np.maximum(there, back), np.maximum(chance, chance_back)
    return np.minimum(6 * worst, 2 * worst + 5 * chance), worst / np.maximum(magnitude, 1e-300)


def _losses(terms: Any, exact: Any) -> tuple[Any, Any]:
    """Return the largest error of each row's running float32 sum, and the deviation of random roundings.

    Errors are differences from the running sum of the exact terms in float64.
    """
    sums = np.cumsum(exact, axis=-1, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        errors = np.abs(np.cumsum(terms, axis=-1, dtype=np.float32) - sums)
    worst = np.where(np.isnan(errors), np.inf, errors).max(-1)
    return worst, 0.42 * 2.0**-24 * np.sqrt(np.square(sums).sum(-1))
