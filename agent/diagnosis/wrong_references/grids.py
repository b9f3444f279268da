"""Faults of grid sampling: coordinates, their scale, neighbours, and padding outside the input."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from agent.diagnosis.graph import Arguments
from agent.diagnosis.wrong_references.composing import Form
from agent.diagnosis.wrong_references.rules import Site, Variant, rule

Tensor = torch.Tensor
_TOKENS = r"floor|\bi?x\b|\bi?y\b|0\.5|clamp|min|max|grid"
_SCALES: dict[str, tuple[str, Callable[[Tensor, int], Tensor]]] = {
    "centres": ("((g + 1) * n - 1) / 2 (align_corners False)", lambda g, n: ((g + 1) * n - 1) / 2),
    "corners": ("(g + 1) * (n - 1) / 2 (align_corners True)", lambda g, n: (g + 1) / 2 * (n - 1)),
    "plain": ("(g + 1) * n / 2", lambda g, n: (g + 1) / 2 * n),
    "mixed": ("(g + 1) * (n - 1) / 2 - 0.5", lambda g, n: (g + 1) / 2 * (n - 1) - 0.5),
    "unit": ("g * (n - 1), for a grid from 0 to 1", lambda g, n: g * (n - 1)),
    "pixels": ("g itself, for a grid of pixels", lambda g, n: g),
}
_OUTSIDE = ("zero", "the nearest border element (clamped)", "mirrored (reflected)", "wrapped around")
_BORDERS = ("zeros", "border", "reflection", "wrapped")


class Sampling(NamedTuple):
    """Parts of a grid sampling operator, each of which a fault may change."""

    scale: str
    border: str
    taps: str
    """Interpolation: `linear`, `floor` or `round`."""
    mirrored: str
    """Axis of reflection: pixel centres for `corners`, pixel edges for `centres`."""
    exchanged: bool = False
    """True if x and y of the grid are exchanged."""
    sizes: bool = False
    """True if height and width are exchanged in the computation of coordinates."""
    swapped: str = ""
    """Axes, of x and y, along which the weights of the neighbours are exchanged."""
    truncated: bool = False
    """True if the coordinate is truncated towards zero instead of floored."""


def _compute(given: Arguments, parts: Sampling) -> Tensor:
    x, grid = given["input"], given["grid"]
    height, width = x.shape[-2:]
    gx, gy = grid[..., 0], grid[..., 1]
    gx, gy = (gy, gx) if parts.exchanged else (gx, gy)
    scale = _SCALES[parts.scale][1]
    of_x, of_y = (height, width) if parts.sizes else (width, height)
    px, py = _bordered(scale(gx, of_x), width, parts), _bordered(scale(gy, of_y), height, parts)
    total: Tensor = x.new_zeros(())
    for row, weight_y in _taps(py, parts, "y" in parts.swapped):
        for column, weight_x in _taps(px, parts, "x" in parts.swapped):
            total = total + (weight_x * weight_y).unsqueeze(1) * _at(x, row, column, parts.border)
    return total


def _bordered(place: Tensor, n: int, parts: Sampling) -> Tensor:
    if parts.border == "border":
        return place.clamp(0, n - 1)
    if parts.border == "reflection":
        low, span = (0.0, float(n - 1)) if parts.mirrored == "corners" else (-0.5, float(n))
        away = (place - low).abs()
        turns, rest = (away / max(span, 1.0)).floor(), away % max(span, 1.0)
        place = torch.where(turns % 2 == 0, rest + low, span - rest + low)
        return place.clamp(0, n - 1)
    return place


def _taps(place: Tensor, parts: Sampling, swapped: bool) -> list[tuple[Tensor, Tensor]]:
    if parts.taps != "linear":
        at = place.floor() if parts.taps == "floor" else place.round()
        return [(at.long(), torch.ones_like(place))]
    low = place.trunc() if parts.truncated else place.floor()
    far = place - low
    near = far if swapped else 1 - far
    return [(low.long(), near), (low.long() + 1, 1 - near)]


def _at(x: Tensor, row: Tensor, column: Tensor, border: str) -> Tensor:
    """Return the elements at the given rows and columns of each sample, shape (samples, channels, ...)."""
    height, width = x.shape[-2:]
    inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
    if border == "wrapped":
        flat = row % height * width + column % width
    else:
        flat = row.clamp(0, height - 1) * width + column.clamp(0, width - 1)
    index = flat.reshape(flat.shape[0], 1, -1).expand(-1, x.shape[1], -1)
    found: Tensor = x.flatten(2).gather(2, index).reshape(*x.shape[:2], *flat.shape[1:])
    return found * inside.unsqueeze(1) if border == "zeros" else found


@rule("grid_sampler_2d")
def _sampled(site: Site) -> Iterator[Variant]:
    given = site.given
    scale = "corners" if given["align_corners"] else "centres"
    taps = ("linear", "round", "cubic")[given["interpolation_mode"]]
    if taps == "cubic":
        return
    own = Sampling(scale, _BORDERS[given["padding_mode"]], taps, scale)
    for kind, words, changes, rank in _changes(own):
        yield site.variant(kind, words, Form(_compute, own, changes), rank, _TOKENS)


def _changes(own: Sampling) -> Iterator[tuple[str, str, dict[str, Any], int]]:
    for scale, (said, _) in _SCALES.items():
        if scale != own.scale:
            corners = {scale, own.scale} == {"centres", "corners"}
            words = f"with places at {said}; the reference has {_SCALES[own.scale][0]}"
            kind = "align-corners" if corners else "wrong-coordinate"
            yield kind, words, {"scale": scale, **({"mirrored": scale} if corners else {})}, 0
            if corners and own.border == "reflection":
                yield kind, words + ", the mirror where it was", {"scale": scale}, 1
    if own.border == "reflection":
        other = "corners" if own.mirrored == "centres" else "centres"
        words = f"with places reflected about pixel {'centres' if other == 'corners' else 'edges'}"
        yield "wrong-coordinate", words + "; the reference about the others", {"mirrored": other}, 0
    spoken = dict(zip(_BORDERS, _OUTSIDE, strict=True))
    for border in _BORDERS:
        if border != own.border:
            was = spoken[own.border]
            words = f"with what lies outside {spoken[border]}; the reference has it {was} (padding)"
            yield "padding-mode", words, {"border": border}, 0
    names = {"linear": "bilinear", "round": "nearest", "floor": "that of the floor"}
    for taps, said in names.items():
        if taps != own.taps:
            yield (
                "interpolation-mode",
                f"with {said} for the reference's interpolation mode",
                {"taps": taps},
                1,
            )
    words = "with x and y of the grid exchanged (swapped)"
    yield "coordinates-swapped", words, {"exchanged": True}, 0
    words = "with height and width exchanged (swapped) where places (coordinates) are computed"
    yield "coordinates-swapped", words, {"sizes": True}, 0
    for along in ("xy", "x", "y"):
        words = f"with the weights of the neighbours exchanged (swapped) along {' and '.join(along)}"
        yield "weights-swapped", words, {"swapped": along}, 0
    words = "with places (coordinates) cut towards zero (truncated) where the reference takes their floor"
    yield "wrong-rounding", words, {"truncated": True}, 0
