"""The order in which a sum is taken: `total` sums over dimensions in the order that is in force.

Three orders. `Strips`: up to 256 partial sums, added last to first, as blocks do. `OneByOne`: what a sum may
be off by if taken value after value, as float atomics take it. `Short`: partial sums rounded to a shorter
dtype, which is no right order and there for wrong answers.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

STRIPS = 256
"""Partial sums of a reduction, added one after the other: the order of a block for each strip."""
FEW = 64
"""Sums up to which a tensor of sums has few: one kernel's atomics all go there, and the errors of so few may
happen to be nearly 0 in the orders that were tried."""
MANY = 1 << 26
"""Terms whose squares are rather taken strip by strip than kept."""
LINKS = 1 << 22
"""Additions in sequence at most; longer sums add pairs and larger groups first. 4 million is one atomic for
each block of 256 over 2^30 values."""
USELESS = 1e-3
"""A sum that loses a larger share of its terms' magnitudes is not right in that order."""


class Strips:
    def __init__(self) -> None:
        self.few = False
        """Whether a tensor of few sums was among those taken."""

    def __call__(self, flat: torch.Tensor, divisor: float = 1.0) -> torch.Tensor:
        """The sum over the last dimension, in float32 for shorter dtypes; `divisor` as in `total`."""
        return self._in_strips(flat, wide)

    def of_squares(self, flat: torch.Tensor, divisor: float) -> torch.Tensor:
        """The same of the squares, which are never there as a whole where they are many."""
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
    """Each of few sums off by what taking it value after value in float32 may lose.

    Measured forwards and backwards: w, the most that the running sum is off by on the way. The end may be
    right by chance, w is not small by chance: 1,060 sums of 10^3 to 10^6 random values in random orders
    ended within 3.3 w in 99 % and all within 5.2 w. Rounding that is no chance, since equal or small values
    round alike, is much the same in every order. So 2 w and five deviations of the additions' chance
    roundings are allowed (each ulp(sum) / sqrt(12): 0.42 u |sum| on average), and never more than 6 w.

    A mean may also be summed from terms that are divided first, which round in their own way: a thousand ones
    are exactly 1000, a thousand times float32(1/1000) is not 1. So where the sum is divided by more than 1
    (`divisor`), the same is measured of the terms times float32(1 / divisor) against the float64 sum of the
    terms over the divisor, and the larger of both is allowed. That order never counts into `lost`, and where
    it loses more than `USELESS` nothing is allowed for it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lost = 0.0
        """Largest share of its terms' magnitudes that a sum lost."""

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
    """Partial sums kept in `dtype`."""

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
    """Sums inside are taken in that order."""
    _in_force.append(order)
    try:
        yield
    finally:
        _in_force.pop()


def total(
    x: torch.Tensor, dim: Any, keepdim: bool = False, divisor: float = 1.0, *, squared: bool = False
) -> torch.Tensor:
    """The sum over `dim` (None: all) in the order in force, in float32 for shorter dtypes.

    `divisor`: what the caller divides it by, where a kernel may as well divide each term. `squared`: of the
    squares.
    """
    along = axes(x, dim)
    shape = [1 if axis in along else size for axis, size in enumerate(x.shape)]
    flat = x.movedim(along, list(range(-len(along), 0))).flatten(-len(along)) if along else x.unsqueeze(-1)
    order = _in_force[-1]
    result = order.of_squares(flat, divisor) if squared else order(flat, divisor)
    return result.reshape(shape) if keepdim else result


def running(x: torch.Tensor, dim: int, product: bool = False) -> torch.Tensor:
    """Running sums or products along `dim`, one value after another in float32: a thread for each row."""
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
    """In float32 where its dtype is shorter."""
    return x.float() if x.element_size() < 4 else x


def strips(size: int, most: int) -> Iterator[slice]:
    """Up to so many equal parts of a dimension, last to first."""
    step = max(1, math.ceil(size / most))
    for begin in reversed(range(0, size, step)):
        yield slice(begin, begin + step)


def axes(x: torch.Tensor, dim: Any) -> list[int]:
    """The dimensions that `dim` names; all of them for None."""
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return list(range(x.dim()))
    return [axis % max(x.dim(), 1) for axis in (dim if isinstance(dim, (list, tuple)) else [dim])]


def _links(flat: torch.Tensor) -> torch.Tensor:
    """What is added in sequence: the terms, or sums over groups of them where there are too many."""
    given, count = wide(flat), flat.shape[-1]
    group = math.ceil(flat.numel() / LINKS)
    if group == 1:
        return given
    whole = count // group * group
    parts = [given[..., :whole].reshape(*flat.shape[:-1], -1, group).sum(-1)]
    return torch.cat([*parts, given[..., whole:].sum(-1, keepdim=True)], -1)


def _allowed(terms: Any, exact: Any, magnitude: Any) -> tuple[Any, Any]:
    """What adding each row's float32 `terms` one after the other may be off by from the sum of the `exact`
    ones, and the largest share of their `magnitude` that it was off by on the way."""
    (there, chance), (back, chance_back) = _losses(terms, exact), _losses(terms[..., ::-1], exact[..., ::-1])
    worst, chance = np.maximum(there, back), np.maximum(chance, chance_back)
    return np.minimum(6 * worst, 2 * worst + 5 * chance), worst / np.maximum(magnitude, 1e-300)


def _losses(terms: Any, exact: Any) -> tuple[Any, Any]:
    """How far each row's running sum in float32 is from that of the exact terms in float64 at most, and a
    deviation of the roundings on the way if they were chance."""
    sums = np.cumsum(exact, axis=-1, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        errors = np.abs(np.cumsum(terms, axis=-1, dtype=np.float32) - sums)
    worst = np.where(np.isnan(errors), np.inf, errors).max(-1)
    return worst, 0.42 * 2.0**-24 * np.sqrt(np.square(sums).sum(-1))
