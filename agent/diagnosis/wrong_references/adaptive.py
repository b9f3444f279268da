"""Faults of adaptive pooling: begin, end and divisor of the windows."""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from agent.diagnosis.graph import Arguments
from agent.diagnosis.wrong_references.composing import Form
from agent.diagnosis.wrong_references.rules import Site, Variant, rule

Tensor = torch.Tensor
Bound = Callable[[int, int, int], int]
"""Function of output index, input size and output size that returns the window's begin or end."""
_TOKENS = r"start|begin|end|/"
_BEGINS: dict[str, Bound] = {
    "floor": lambda o, n, m: o * n // m,
    "ceil": lambda o, n, m: -(-o * n // m),
    "floored step": lambda o, n, m: o * (n // m),
    "ceiled step": lambda o, n, m: o * -(-n // m),
    "round": lambda o, n, m: (2 * o * n + m) // (2 * m),
}
_ENDS: dict[str, Bound] = {
    "ceil": lambda o, n, m: -(-(o + 1) * n // m),
    "floor": lambda o, n, m: (o + 1) * n // m,
    "begin + floored size": lambda o, n, m: o * n // m + n // m,
    "begin + ceiled size": lambda o, n, m: o * n // m + -(-n // m),
    "floored step": lambda o, n, m: (o + 1) * (n // m),
    "ceiled step": lambda o, n, m: (o + 1) * -(-n // m),
    "floored step, fixed size": lambda o, n, m: o * (n // m) + n - (m - 1) * (n // m),
    "one less": lambda o, n, m: -(-(o + 1) * n // m) - 1,
    "one more": lambda o, n, m: -(-(o + 1) * n // m) + 1,
    "round": lambda o, n, m: (2 * (o + 1) * n + m) // (2 * m),
}


class Adaptive(NamedTuple):
    """Parts of an adaptive pooling operator, each of which a fault may change."""

    sizes: list[int]
    reduce: str
    begins: tuple[str, ...]
    ends: tuple[str, ...]
    divisor: str | float = "window"
    start: float | None = None


def _within(n: int, m: int, begin: str, end: str) -> Tensor:
    """Return a mask of shape (outputs, inputs), True where the window contains the element."""
    place = torch.arange(n)
    rows = [
        (place >= _BEGINS[begin](o, n, m)) & (place < max(_ENDS[end](o, n, m), _BEGINS[begin](o, n, m) + 1))
        for o in range(m)
    ]
    return torch.stack(rows)


def _compute(given: Arguments, pool: Adaptive) -> Tensor:
    x: Tensor = given["self"]
    dims = len(pool.sizes)
    counts = x.new_ones(())
    for axis, size in enumerate(pool.sizes):
        at = x.dim() - dims + axis
        within = _within(x.shape[at], size, pool.begins[axis], pool.ends[axis]).to(x.device)
        moved = x.movedim(at, -1)
        if pool.reduce == "mean":
            moved = moved @ within.to(x.dtype).t()
        else:
            moved = moved.unsqueeze(-2).masked_fill(~within, -math.inf).amax(-1)
        x = moved.movedim(-1, at)
        counts = counts.unsqueeze(-1) * within.sum(1)
    if pool.reduce == "max":
        return x if pool.start is None else x.clamp_min(pool.start)
    if pool.divisor == "window":
        return x / counts
    return x / pool.divisor  # type: ignore[operator]


@rule("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def _adaptive(site: Site) -> Iterator[Variant]:
    dims = int(site.call.name.partition("pool")[2][0])
    value = site.call.value
    if value is None:
        return
    own = Adaptive(
        list(value.shape[-dims:]),
        "max" if "max" in site.call.name else "mean",
        ("floor",) * dims,
        ("ceil",) * dims,
    )
    for kind, words, changes, rank in _changes(site, own):
        yield site.variant(kind, words, site.first(Form(_compute, own, changes)) if isinstance(
            site.call.result, tuple) else Form(_compute, own, changes), rank, _TOKENS)  # fmt: skip


def _changes(site: Site, own: Adaptive) -> Iterator[tuple[str, str, dict[str, Any], int]]:
    dims = len(own.sizes)
    sizes = site.given["self"].shape[-dims:]
    for axes in (range(dims), *((axis,) for axis in range(dims) if dims > 1)):
        along = "" if len(axes) == dims else f" along spatial dim {axes[0]}"
        rank = 1 if along else 0
        ends = {end: tuple(end if a in axes else old for a, old in enumerate(own.ends)) for end in _ENDS}
        begins = {b: tuple(b if a in axes else old for a, old in enumerate(own.begins)) for b in _BEGINS}
        for end, each in ends.items():
            words = f"with windows that end by another rounding{along}: {end} for ceil((o + 1) * n / m)"
            kind = "pool-window" if end.startswith("one") else "wrong-rounding"
            yield kind, words, {"ends": each}, rank
            for begin, first in begins.items():
                if begin in (end, "ceil") or begin.split()[0].strip(",") == end.split()[0]:
                    words = (
                        f"with windows from {begin} to {end}{along}; the reference's are from floor to ceil"
                    )
                    yield "wrong-rounding", words, {"begins": first, "ends": each}, rank + 1
        for begin, first in begins.items():
            words = f"with windows that begin by another rounding{along}: {begin} for floor(o * n / m)"
            yield "wrong-rounding", words, {"begins": first}, rank
    if own.reduce == "max":
        for start in dict.fromkeys((0.0, -1.0, 1.0, *(-real for real in site.facts.real[:40]))):
            yield "pool-start-value", f"with the maximum starting at {start:g}", {"start": start}, 0
        yield "wrong-activation", "with the mean of the window for its maximum", {"reduce": "mean"}, 1
        return
    floors, ceils = ([f(n, m) for n, m in zip(sizes, own.sizes, strict=True)] for f in (_floored, _ceiled))
    exact = math.prod(sizes) / math.prod(own.sizes)
    for divisor, spoken in (
        (math.prod(floors), "floor(n / m) for each dim"),
        (math.prod(ceils), "ceil(n / m) for each dim"),
        (exact, "n / m as a fraction"),
        (math.prod(c + 1 for c in floors), "floor(n / m) + 1 for each dim"),
    ):
        words = (
            f"divided by the constant {divisor:g}, {spoken}; the reference by the size (count) of each window"
        )
        yield "pool-divisor", words, {"divisor": float(divisor)}, 1
    words = "with the sum of the window for its mean: not divided by the count"
    yield "sum-for-mean", words, {"divisor": 1.0}, 0
    yield "max-for-mean", "with the maximum of the window for its mean", {"reduce": "max"}, 1


def _floored(n: int, m: int) -> int:
    return n // m


def _ceiled(n: int, m: int) -> int:
    return -(-n // m)
