"""Faults of maximum and average pooling."""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from agent.diagnosis.tape import Arguments
from agent.diagnosis.wrong_references.rules import Site, Variant, rule

Tensor = torch.Tensor
_WINDOW = r"\bk[yxhwij]?\b|pad|stride|best|max|sum|/"


class Window(NamedTuple):
    """Geometry of a pooling operator, one number for each spatial dimension."""

    kernel: list[int]
    stride: list[int]
    padding: list[int]
    dilation: list[int]

    def over(self, x: Tensor, sizes: list[int], fill: float) -> Tensor:
        """(..., outputs..., taps): the elements of each window, `fill` outside the input."""
        dims = len(self.kernel)
        pads: list[int] = []
        for axis in reversed(range(dims)):
            reach = (sizes[axis] - 1) * self.stride[axis] + self.dilation[axis] * (self.kernel[axis] - 1) + 1
            pads += [self.padding[axis], reach - x.shape[axis - dims] - self.padding[axis]]
        x = F.pad(x, pads, value=fill)
        first = x.dim() - dims
        for axis in range(dims):
            reach = self.dilation[axis] * (self.kernel[axis] - 1) + 1
            x = x.unfold(first + axis, reach, self.stride[axis])[..., :: self.dilation[axis]]
        return x.flatten(-dims)


def _full(value: Any, dims: int, otherwise: list[int]) -> list[int]:
    numbers = list(value) if isinstance(value, (list, tuple)) else [value]
    return otherwise if not numbers else numbers * dims if len(numbers) == 1 else numbers


def _window(site: Site, dims: int) -> Window:
    given = site.given
    kernel = _full(given["kernel_size"], dims, [])
    return Window(
        kernel, _full(given["stride"], dims, kernel), _full(given["padding"], dims, [0] * dims),
        _full(given.get("dilation", 1), dims, [1] * dims),
    )  # fmt: skip


Pool = Callable[[Tensor], Tensor]


@rule(
    "max_pool2d_with_indices",
    "max_pool3d_with_indices",
    "max_pool2d",
    "avg_pool2d",
    "avg_pool3d",
    "avg_pool1d",
)
def _pools(site: Site) -> Iterator[Variant]:
    dims = int(site.call.name.partition("pool")[2][0])
    own = _window(site, dims)
    sizes = list(site.call.value.shape[-dims:]) if site.call.value is not None else []
    largest = site.call.name.startswith("max")

    def pooled(window: Window, reduce: Pool, fill: float) -> Callable[[Arguments], Any]:
        return site.first(lambda given: reduce(window.over(given["self"], sizes, fill)))

    if largest:
        yield from _maxima(site, own, pooled)
    else:
        yield from _averages(site, own, pooled)
    fill = -math.inf if largest else 0.0
    reduce: Pool = (lambda w: w.amax(-1)) if largest else (lambda w: w.mean(-1))
    for kind, words, window in _windows(own):
        yield site.variant(kind, words, pooled(window, reduce, fill), 1, _WINDOW)
    if largest:
        mean = pooled(own, lambda w: w.mean(-1), 0.0)
        yield site.variant(
            "wrong-activation", "with the mean of the window for its maximum", mean, 1, _WINDOW
        )
    else:
        top = pooled(own, lambda w: w.amax(-1), -math.inf)
        yield site.variant("max-for-mean", "with the maximum of the window for its mean", top, 1, _WINDOW)


def _windows(own: Window) -> Iterator[tuple[str, str, Window]]:
    dims = len(own.kernel)
    for delta in (-2, -1, 1, 2):
        begins = [begin + delta for begin in own.padding]
        kind = "padding-ignored" if any(own.padding) and not any(begins) else "padding-off-by-one"
        words = f"with a padding of {begins[0]} before; the reference has {own.padding[0]}"
        yield kind, words, own._replace(padding=begins)
        kernel = [size + delta for size in own.kernel]
        if min(kernel) > 0:
            words = f"with a window (kernel) of {kernel[0]}; the reference has {own.kernel[0]}"
            yield "pool-window", words, own._replace(kernel=kernel)
    for stride in {1, 2, 3, own.kernel[0]} - {own.stride[0]}:
        words = f"with stride {stride}; the reference has {own.stride[0]}"
        yield "stride-ignored", words, own._replace(stride=[stride] * dims)
    if own.dilation != [1] * dims:
        yield "dilation-ignored", "with the dilation ignored", own._replace(dilation=[1] * dims)
    if dims > 1 and own.kernel[0] != own.kernel[1]:
        yield "pool-window", "with the window's sides exchanged", own._replace(kernel=own.kernel[::-1])


def _maxima(site: Site, own: Window, pooled: Any) -> Iterator[Variant]:
    for start in dict.fromkeys([0.0, *(v for real in site.facts.real[:40] for v in (-real, real))]):
        words = f"with the maximum starting at {start:g}"
        reduce: Pool = lambda w, s=start: w.amax(-1).clamp_min(s)  # type: ignore[misc]  # noqa: E731
        yield site.variant(
            "pool-start-value",
            words,
            pooled(own, reduce, -math.inf),
            0,
            r"(?:best|\w*max\w*|largest|top|m|v)\s*=\s*-?[\d.]+f?;",
        )
    if any(own.padding):
        words = "with zeros in the padding, which take part in the maximum: padding starts at zero"
        yield site.variant("pool-start-value", words, pooled(own, lambda w: w.amax(-1), 0.0), 0, "pad|0")
    smallest = pooled(own, lambda w: w.amin(-1), math.inf)
    yield site.variant("min-for-max", "with the minimum of the window", smallest, 1, "min")


def _averages(site: Site, own: Window, pooled: Any) -> Iterator[Variant]:
    taps, counted = math.prod(own.kernel), site.given.get("count_include_pad", True)

    def inside(w: Tensor) -> Tensor:
        known = ~w.isnan()
        return torch.where(known, w, 0.0).sum(-1) / known.sum(-1).clamp_min(1)

    if any(own.padding):
        words = (
            "divided by the number of elements inside"
            if counted
            else f"divided by the whole window of {taps}"
        )
        words += "; the reference counts " + ("the padding too" if counted else "only those inside")
        rewrite = pooled(own, inside, math.nan) if counted else pooled(own, lambda w: w.mean(-1), 0.0)
        yield site.variant("pool-divisor", words, rewrite, 0, r"/|seen|count")
    total = pooled(own, lambda w: w.sum(-1), 0.0)
    words = f"with the sum of the window for its mean: not divided by {taps}"
    yield site.variant("sum-for-mean", words, total, 0, "/|sum")
    for divisor in {taps - 1, taps + 1, own.kernel[0], *own.stride, 4, 9} - {taps, 0, 1}:
        rewrite = pooled(own, lambda w, d=divisor: w.sum(-1) / d, 0.0)
        words = f"divided by {divisor}; the reference divides by {taps}"
        yield site.variant("pool-divisor", words, rewrite, 1, "/")
