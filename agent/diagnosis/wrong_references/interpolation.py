"""Faults of interpolation: source coordinates, neighbours and their weights, for each dimension."""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from agent.diagnosis.graph import Arguments
from agent.diagnosis.wrong_references.composing import Form
from agent.diagnosis.wrong_references.rules import Site, Variant, rule

Tensor = torch.Tensor
_TOKENS = r"scale|ratio|src|floor|0\.5|clamp|min|max|\bfx|\bfy|\bw[xy]?\d?\b"
_NAMES = (
    "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d", "_upsample_nearest_exact3d", "upsample_linear1d", "upsample_bilinear2d",
    "upsample_trilinear3d", "upsample_bicubic2d",
)  # fmt: skip
Place = Callable[[Tensor, int, int], Tensor]
"""Function of output indices, input size and output size that returns source coordinates."""
_PLACES: dict[str, tuple[str, Place]] = {
    "centres": ("between pixel centres, (o + 0.5) * n / m - 0.5", lambda o, n, m: (o + 0.5) * n / m - 0.5),
    "corners": ("keeping the corners, o * (n - 1) / (m - 1)", lambda o, n, m: o * (n - 1) / max(m - 1, 1)),
    "plain": ("from the origin, o * n / m", lambda o, n, m: o * n / m),
    "shifted": ("at (o + 0.5) * n / m, half a pixel off", lambda o, n, m: (o + 0.5) * n / m),
    "short": ("at o * (n - 1) / m", lambda o, n, m: o * (n - 1) / m),
    "long": ("at o * n / (m - 1)", lambda o, n, m: o * n / max(m - 1, 1)),
    "mixed": ("at (o + 0.5) * (n - 1) / (m - 1) - 0.5",
              lambda o, n, m: (o + 0.5) * (n - 1) / max(m - 1, 1) - 0.5),
    "half back": ("at o * n / m - 0.5", lambda o, n, m: o * n / m - 0.5),
    "whole step": ("at o / floor(m / n)", lambda o, n, m: o / max(m // n, 1)),
    "ceiled step": ("at o / ceil(m / n)", lambda o, n, m: o / -(-m // n)),
    "turned": ("with the ratio of sizes inverted, o * m / n", lambda o, n, m: o * m / n),
    "modulo": ("with the index modulo the size", lambda o, n, m: o % n),
    "wide": ("at o * (n + 1) / (m + 1)", lambda o, n, m: o * (n + 1) / (m + 1)),
}  # fmt: skip


class Resample(NamedTuple):
    """Parts of an interpolation; most tuples have one entry for each spatial dimension."""

    places: tuple[str, ...]
    taps: tuple[str, ...]
    """Interpolation: `floor`, `round`, `ceil`, `linear` or `cubic`."""
    ratios: tuple[tuple[int, int], ...]
    """Input and output sizes from which coordinates are computed."""
    clamped: bool
    """True if coordinates before the first element are clamped to it."""
    edge: str = "repeated"
    """Values beyond the border: `repeated`, `zero`, `wrapped` or `mirrored`."""
    swapped: tuple[int, ...] = ()
    """Dimensions along which the weights of the neighbours are exchanged."""
    coefficient: float = -0.75
    shift: int = 0
    """Offset of the neighbours, in elements."""


def _matrix(sizes: tuple[int, int], axis: int, parts: Resample) -> Tensor:
    """Return the weights of one dimension, shape (outputs, inputs)."""
    n, m = sizes
    place = _PLACES[parts.places[axis]][1](torch.arange(m).double(), *parts.ratios[axis])
    taps = parts.taps[axis]
    if taps in ("floor", "round", "ceil"):
        at = {"floor": place.floor(), "round": (place + 0.5).floor(), "ceil": place.ceil()}[taps]
        return _placed([(at.long(), torch.ones(m).double())], n, parts.edge)
    place = place.clamp_min(0) if parts.clamped else place
    low = place.floor()
    far = place - low
    if taps == "linear":
        near = far if axis in parts.swapped else 1 - far
        first = low.long() + parts.shift
        return _placed([(first, near), (first + 1, 1 - near)], n, parts.edge)
    weights = _cubic(far, parts.coefficient)
    weights = weights[::-1] if axis in parts.swapped else weights
    return _placed(
        [(low.long() + parts.shift + k - 1, weight) for k, weight in enumerate(weights)], n, parts.edge
    )


def _placed(taps: list[tuple[Tensor, Tensor]], n: int, edge: str) -> Tensor:
    rows = torch.zeros(len(taps[0][0]), n).double()
    for place, weight in taps:
        inside = (place >= 0) & (place < n)
        if edge == "mirrored":
            place = torch.where(place < 0, -place, torch.where(place >= n, 2 * n - 2 - place, place))
        at = place % n if edge == "wrapped" else place.clamp(0, n - 1)
        weight = torch.where(inside, weight, 0.0) if edge == "zero" else weight
        rows.scatter_add_(1, at.unsqueeze(1), weight.unsqueeze(1))
    return rows


def _cubic(t: Tensor, a: float) -> list[Tensor]:
    def near(x: Tensor) -> Tensor:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Tensor) -> Tensor:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _compute(given: Arguments, parts: Resample) -> Tensor:
    x: Tensor = given["self"]
    sizes = given["output_size"]
    first = x.dim() - len(sizes)
    for axis, size in enumerate(sizes):
        weights = _matrix((x.shape[first + axis], size), axis, parts).to(x)
        x = (x.movedim(first + axis, -1) @ weights.t()).movedim(-1, first + axis)
    return x


@rule(*_NAMES)
def _interpolated(site: Site) -> Iterator[Variant]:
    name, given = site.call.name, site.given
    sizes, dims = given["output_size"], len(given["output_size"])
    taps = "cubic" if "cubic" in name else "linear" if "linear" in name else "floor"
    place = "corners" if given.get("align_corners") else "centres"
    if taps == "floor":
        place = "shifted" if "exact" in name else "plain"
    ratios = tuple(zip(given["self"].shape[-dims:], sizes, strict=True))
    own = Resample((place,) * dims, (taps,) * dims, ratios, taps == "linear")
    for kind, words, changes, rank in (*_each(own, dims), *_whole(own, dims, site.facts.real)):
        yield site.variant(kind, words, Form(_compute, own, changes), rank, _TOKENS)


Change = tuple[str, str, dict[str, Any], int]


def _each(own: Resample, dims: int) -> Iterator[Change]:
    """Yield the faults along one dimension or along all."""
    spoken, taps = _PLACES[own.places[0]][0], own.taps[0]
    for axes in (range(dims), *((axis,) for axis in range(dims) if dims > 1)):
        along = "" if len(axes) == dims else f" along spatial dim {axes[0]}"
        rank = 1 if along else 0
        for place, (said, _) in _PLACES.items():
            if place != own.places[0]:
                corners = {place, own.places[0]} == {"centres", "corners"}
                kind = "align-corners" if corners else "wrong-coordinate"
                which = f" (align_corners {place == 'corners'})" if corners else ""
                words = f"with coordinates{along} {said}{which}; the reference takes them {spoken}"
                yield kind, words, {"places": _put(own.places, axes, place)}, rank + (place not in _USUAL)
        for other in ("floor", "round", "ceil", "linear", "cubic"):
            if other != taps:
                nearest = taps == "floor" and other in ("round", "ceil")
                kind = "wrong-rounding" if nearest else "interpolation-mode"
                words = f"with {_SAID[other]}{along}; the reference has {_SAID[taps]}"
                changes: dict[str, Any] = {"taps": _put(own.taps, axes, other)}
                yield kind, words, changes, rank + 1
                place = "centres" if taps == "floor" else "plain"
                said, moved = _PLACES[place][0], {"places": _put(own.places, axes, place)}
                yield kind, f"{words}, {said}", changes | moved, rank + 1
                if other == "linear":
                    clamped = changes | (moved if taps == "floor" else {}) | {"clamped": True}
                    yield kind, f"{words}, {said}, clamped at zero", clamped, rank + 1


_USUAL = ("centres", "corners", "plain")
_SAID = {
    "floor": "the nearest element by floor",
    "round": "the nearest element by rounding",
    "ceil": "the nearest element by ceil",
    "linear": "linear interpolation",
    "cubic": "cubic interpolation",
}


def _put(values: tuple[str, ...], axes: Any, new: str) -> tuple[str, ...]:
    return tuple(new if axis in axes else old for axis, old in enumerate(values))


def _whole(own: Resample, dims: int, literals: tuple[float, ...]) -> Iterator[Change]:
    if own.taps[0] != "floor":
        for axes in (tuple(range(dims)), *((axis,) for axis in range(dims) if dims > 1)):
            along = "" if len(axes) == dims else f" along spatial dim {axes[0]}"
            words = f"with the weights of the neighbours exchanged (swapped){along}"
            yield "weights-swapped", words, {"swapped": axes}, len(axes) < dims
        for shift in (-1, 1):
            words = f"with neighbours one element {'ahead' if shift > 0 else 'back'}: the index is off by one"
            yield "index-off-by-one", words, {"shift": shift}, 1
    for edge, words in (("zero", "taken for zero"), ("wrapped", "wrapped around"), ("mirrored", "mirrored")):
        said = f"with what lies beyond the border {words}; the reference repeats (clamps to) the edge"
        yield "padding-mode", said, {"edge": edge}, 1
    if own.taps[0] != "floor":
        words = "with coordinates not clamped at zero" if own.clamped else "with coordinates clamped at zero"
        yield "wrong-coordinate", words, {"clamped": not own.clamped}, 0
        words += ", and what lies beyond the border taken for zero"
        yield "wrong-coordinate", words, {"clamped": not own.clamped, "edge": "zero"}, 1
    if own.taps[0] == "cubic":
        for value in dict.fromkeys((-0.5, -1.0, -0.6, 0.75, 0.5, 0.0, *literals, *(-r for r in literals))):
            if value != own.coefficient and math.isfinite(value):
                words = f"with the cubic coefficient a = {value:g}; the reference has {own.coefficient:g}"
                yield "wrong-coefficient", words, {"coefficient": value}, int(value not in (-0.5, -1.0))
    for one in range(dims):
        for other in range(one):
            ratios = list(own.ratios)
            ratios[one], ratios[other] = ratios[other], ratios[one]
            words = f"with the ratios (scales) of spatial dims {other} and {one} exchanged (swapped)"
            yield "wrong-coordinate", words, {"ratios": tuple(ratios)}, 0
    for axis in range(dims) if dims > 1 else ():
        words = f"with the ratio (scale) of spatial dim {axis} for every dim"
        yield "wrong-coordinate", words, {"ratios": (own.ratios[axis],) * dims}, 1
