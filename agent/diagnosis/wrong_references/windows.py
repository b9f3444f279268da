"""Pooling in one common form: windows over the input, padding, reduction and divisor."""

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from agent.diagnosis.graph import Arguments

Tensor = torch.Tensor
NONE = -1
"""Index given to window positions outside the input."""


class Pool(NamedTuple):
    """Parts of a pooling operator; each list has one number for each spatial dimension."""

    kernel: list[int]
    stride: list[int]
    padding: list[int]
    """Padding before the input along each spatial dimension."""
    dilation: list[int]
    sizes: list[int]
    """Spatial sizes of the output."""
    counted: list[int]
    """Padding on either side that the divisor may count."""
    reduce: str
    """Reduction: `max`, `min` or `mean`."""
    divisor: str | float = "padded"
    """Divisor of a mean: a number, or the window's elements within input and padding (`padded`), within the
    input (`inside`), or all of them (`taps`).
    """
    zeros: bool = False
    """True if zeros outside the input take part in a maximum or minimum."""
    start: float | None = None
    """Start value of a maximum or minimum."""
    numbering: str = "plane"
    """Origin of indices: `plane`, `window`, `padded`, `tensor`, or `turned` for columns first."""
    last: bool = False
    """True if the last of equal elements gives the index."""

    def over(self, x: Tensor, fill: float) -> Tensor:
        """Return each window's elements, shape (..., outputs..., taps), with `fill` outside the input."""
        dims = len(self.kernel)
        pads: list[int] = []
        for axis in reversed(range(dims)):
            reach = (self.sizes[axis] - 1) * self.stride[axis] + self._reach(axis)
            pads += [self.padding[axis], reach - x.shape[axis - dims] - self.padding[axis]]
        x = F.pad(x, pads, value=fill)
        first = x.dim() - dims
        for axis in range(dims):
            taps = x.unfold(first + axis, self._reach(axis), self.stride[axis])
            x = taps[..., :: self.dilation[axis]]
        return x.flatten(-dims)

    def _reach(self, axis: int) -> int:
        return self.dilation[axis] * (self.kernel[axis] - 1) + 1


def pooled(given: Arguments, pool: Pool) -> Tensor:
    """Return the pooled values, the operator's first result."""
    x: Tensor = given["self"]
    return _mean(x, pool) if pool.reduce == "mean" else _extreme(x, pool)[0]


def pooled_with_places(given: Arguments, pool: Pool) -> tuple[Tensor, Tensor]:
    """Return values and indices of an operator that returns both."""
    x: Tensor = given["self"]
    if pool.reduce == "mean":
        return _mean(x, pool), torch.zeros((), dtype=torch.int64)
    return _extreme(x, pool)


def _mean(x: Tensor, pool: Pool) -> Tensor:
    total = pool.over(x, 0.0).sum(-1)
    if not isinstance(pool.divisor, str):
        return total / pool.divisor
    if pool.divisor == "taps":
        return total / math.prod(pool.kernel)
    plane = x.new_ones((1, *x.shape[-len(pool.kernel) :]))
    counted = pool.counted if pool.divisor == "padded" else [0] * len(pool.kernel)
    plane = F.pad(plane, [size for size in reversed(counted) for _ in range(2)], value=1.0)
    shifted = pool._replace(padding=[p - c for p, c in zip(pool.padding, counted, strict=True)])
    return total / shifted.over(plane, 0.0).sum(-1).clamp_min(1)


def _extreme(x: Tensor, pool: Pool) -> tuple[Tensor, Tensor]:
    largest = pool.reduce == "max"
    none = -math.inf if largest else math.inf
    window = pool.over(x, 0.0 if pool.zeros else none)
    found = window if largest else -window
    if pool.last:
        tap = window.shape[-1] - 1 - found.flip(-1).argmax(-1, keepdim=True)
    else:
        tap = found.argmax(-1, keepdim=True)
    values = window.gather(-1, tap).squeeze(-1)
    if pool.start is not None:
        values = values.clamp_min(pool.start) if largest else values.clamp_max(pool.start)
    return values, _places(x, pool, tap)


def _places(x: Tensor, pool: Pool, tap: Tensor) -> Tensor:
    shape = x.shape[-len(pool.kernel) :]
    if pool.numbering == "window":
        return tap.squeeze(-1)
    count = math.prod(shape)
    if pool.numbering == "turned":
        plane = torch.arange(count).reshape(*reversed(shape)).permute(*reversed(range(len(shape))))
    elif pool.numbering == "padded":
        wide = [size + 2 * p for size, p in zip(shape, pool.padding, strict=True)]
        plane = torch.arange(math.prod(wide)).reshape(wide)
        for axis, size in enumerate(shape):
            plane = plane.narrow(axis, pool.padding[axis], size)
    else:
        plane = torch.arange(count).reshape(shape)
    places = pool.over(plane.double().unsqueeze(0), float(NONE)).long().squeeze(0)
    found = places.expand(*tap.shape[:-1], -1).gather(-1, tap).squeeze(-1)
    if pool.numbering == "tensor":
        planes = math.prod(tap.shape[: -1 - len(shape)])
        found = found + count * torch.arange(planes).reshape(*tap.shape[: -1 - len(shape)], *[1] * len(shape))
    return found


def full(value: Any, dims: int, otherwise: list[int]) -> list[int]:
    """Return one number for each dimension; `otherwise` if `value` is an empty list."""
    numbers = list(value) if isinstance(value, (list, tuple)) else [value]
    return otherwise if not numbers else numbers * dims if len(numbers) == 1 else numbers
