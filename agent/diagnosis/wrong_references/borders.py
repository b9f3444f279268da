"""Faults of padding (width of each side, fill) and of pixel shuffle and unshuffle."""

import math
from collections.abc import Iterator
from itertools import permutations
from typing import Any, NamedTuple

import torch

from agent.diagnosis.graph import Arguments
from agent.diagnosis.wrong_references.composing import Form
from agent.diagnosis.wrong_references.rules import Site, Variant, rule

Tensor = torch.Tensor
_TOKENS = r"pad|<|>|%|\?"
_MODES = {
    "constant": "a constant",
    "reflected": "reflected (mirrored), the edge not repeated",
    "symmetric": "mirrored (symmetric), the edge repeated",
    "repeated": "the nearest element (replicated, the edge repeated)",
    "wrapped": "wrapped around (circular)",
    "running on": "what lies beside it in memory (no bounds), the row before or after",
}


class Border(NamedTuple):
    """Parts of a padding operator, with one entry for each padded dimension, in order."""

    begins: tuple[int, ...]
    sizes: tuple[int, ...]
    """Size of each padded dimension after padding."""
    modes: tuple[str, ...]
    value: float = 0.0


def _filled(given: Arguments, border: Border) -> Tensor:
    x: Tensor = given["self"]
    first = x.dim() - len(border.sizes)
    total = torch.zeros((), dtype=torch.int64)
    inside = torch.ones((), dtype=torch.bool)
    for axis, size in enumerate(border.sizes):
        n = x.shape[first + axis]
        place = torch.arange(size) - border.begins[axis]
        within = (place >= 0) & (place < n)
        shape = [-1, *[1] * (len(border.sizes) - axis - 1)]
        stride = math.prod(x.shape[first + axis + 1 :])
        total = total + (_moved(place, n, border.modes[axis]) * stride).reshape(shape)
        if border.modes[axis] == "constant":
            inside = inside & within.reshape(shape)
    flat = x.reshape(*x.shape[:first], -1)
    if "running on" in border.modes:
        rows = torch.arange(math.prod(x.shape[:first])).reshape(*x.shape[:first], *[1] * len(border.sizes))
        everywhere = rows * flat.shape[-1] + total
        known = (everywhere >= 0) & (everywhere < x.numel())
        return torch.where(known, x.reshape(-1)[everywhere.clamp(0, x.numel() - 1)], 0.0)
    made = flat[..., total.reshape(-1)].reshape(*x.shape[:first], *border.sizes)
    return torch.where(inside, made, border.value) if "constant" in border.modes else made


def _moved(place: Tensor, n: int, mode: str) -> Tensor:
    if mode == "running on":
        return place
    if mode == "wrapped":
        return place % n
    if mode == "symmetric":
        place = place % (2 * n)
        return torch.where(place < n, place, 2 * n - 1 - place)
    if mode == "reflected":
        place = place % max(2 * n - 2, 1)
        return torch.where(place < n, place, 2 * n - 2 - place)
    return place.clamp(0, n - 1)


@rule("constant_pad_nd", "reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "replication_pad1d",
      "replication_pad2d", "replication_pad3d")  # fmt: skip
def _pads(site: Site) -> Iterator[Variant]:
    name, pads = site.call.name, list(site.given["pad" if "pad" in site.given else "padding"])
    dims, result = len(pads) // 2, site.call.result
    mode = {"constant": "constant", "reflection": "reflected"}.get(name.split("_")[0], "repeated")
    sizes = tuple(result.shape[result.dim() - dims :])
    own = Border(tuple(pads[-2::-2]), sizes, (mode,) * dims, site.given.get("value") or 0.0)
    ends = tuple(pads[::-2])
    for kind, words, changes, rank in changes_of(own, ends, site.facts.real):
        yield site.variant(kind, words, Form(_filled, own, changes), rank, _TOKENS)


@rule("new_empty")
def _circular(site: Site) -> Iterator[Variant]:
    """Yield the faults of circular padding, which torch implements by copies into a new tensor."""
    x, made = site.given["self"], site.call.result
    copies = [call for call in site.tape.calls if call.name == "copy" and call.number > site.call.number]
    if not copies or made.dim() != x.dim() or not made.is_floating_point():
        return
    begins = _begins(site, made.dim())
    first = next((axis for axis in range(made.dim()) if made.shape[axis] != x.shape[axis]), made.dim())
    dims = range(first, made.dim())
    own = Border(
        tuple(begins[axis] for axis in dims),
        tuple(made.shape[axis] for axis in dims),
        ("wrapped",) * len(dims),
    )
    if not dims or not torch.equal(_filled({"self": x}, own), made):
        return
    ends = tuple(made.shape[axis] - x.shape[axis] - begins[axis] for axis in dims)
    for kind, words, changes, rank in changes_of(own, ends, site.facts.real):
        kept: dict[int, Any] = {call.number: lambda given: given["self"] for call in copies}
        yield Variant(kind, words, {site.call.number: Form(_filled, own, changes), **kept}, rank, _TOKENS)


def _begins(site: Site, dims: int) -> dict[int, int]:
    """Return for each dim the index where the first copy begins."""
    begins = dict.fromkeys(range(dims), 0)
    tensor = site.call.result
    while True:
        views = [c for c in site.tape.calls if c.name == "slice" and c.given["self"] is tensor]
        if not views:
            return begins
        begins[views[0].given["dim"] % dims] = views[0].given["start"] or 0
        tensor = views[0].result


def changes_of(
    own: Border, ends: tuple[int, ...], literals: tuple[float, ...]
) -> Iterator[tuple[str, str, dict[str, Any], int]]:
    """Yield the kind, words, changed parts and rank of each fault."""
    dims = range(len(own.begins))
    was = own.modes[0]
    for axes in (tuple(dims), *((axis,) for axis in dims if len(own.begins) > 1)):
        along = "" if len(axes) == len(own.begins) else f" along padded dim {axes[0]}"
        for mode, words in _MODES.items():
            if mode != was:
                modes = tuple(mode if axis in axes else old for axis, old in enumerate(own.modes))
                said = f"with the padding {words}{along}; the reference has it {_MODES[was]}"
                yield "padding-mode", said, {"modes": modes}, int(bool(along))
    if was == "constant":
        for value in dict.fromkeys((0.0, 1.0, -1.0, -math.inf, *literals, *(-real for real in literals))):
            if value != own.value:
                words = f"with the padding filled with {value:g}; the reference fills in {own.value:g}"
                yield "wrong-fill-value", words, {"value": value}, 0
    for axes in ((axis,) for axis in dims):
        for delta in (-1, 1, -2, 2):
            begins = tuple(size + delta * (axis in axes) for axis, size in enumerate(own.begins))
            words = (
                f"with a padding of {begins[axes[0]]} before along padded dim {axes[0]}; the reference has "
            )
            yield "padding-off-by-one", f"{words}{own.begins[axes[0]]}", {"begins": begins}, 1
    exchanged = [(ends, "the two sides of each dim")]
    exchanged += [
        (
            tuple(ends[a] if a == axis else b for a, b in enumerate(own.begins)),
            f"the two sides of padded dim {axis}",
        )
        for axis in dims
    ]
    exchanged += [(own.begins[::-1], "the dims (axes)"), (ends[::-1], "the dims (axes) and their sides")]
    for begins, words in exchanged:
        if begins != own.begins:
            yield (
                "padding-sides-swapped",
                f"with the amounts of {words} exchanged (swapped)",
                {"begins": begins},
                0,
            )
    none = tuple(0 for _ in own.begins)
    if none != own.begins:
        yield "padding-ignored", "with no padding before: all of it comes after", {"begins": none}, 1


@rule("pixel_shuffle", "pixel_unshuffle")
def _shuffled(site: Site) -> Iterator[Variant]:
    """Yield variants with the channel dim's factors (channel, block row, block column) in another order."""
    x: Tensor = site.given["self"]
    up = site.call.name == "pixel_shuffle"
    r = site.given.get("upscale_factor") or site.given["downscale_factor"]
    lead, (c, h, w) = x.shape[:-3], x.shape[-3:]
    channels = c // (r * r) if up else c
    names = {"c": channels, "i": r, "j": r}

    def shuffled(given: Arguments, order: tuple[str, ...]) -> Tensor:
        t: Tensor = given["self"]
        n = len(lead)
        if up:
            t = t.reshape(*lead, *(names[name] for name in order), h, w)
            at = [n + order.index(name) for name in ("c", "i", "j")]
            t = t.permute(*range(n), at[0], n + 3, at[1], n + 4, at[2])
            return t.reshape(*lead, channels, h * r, w * r)
        t = t.reshape(*lead, c, h // r, r, w // r, r)
        at = [{"c": n, "i": n + 2, "j": n + 4}[name] for name in order]
        return t.permute(*range(n), *at, n + 1, n + 3).reshape(*lead, c * r * r, h // r, w // r)

    said = {"c": "channel", "i": "row", "j": "column"}
    for order in permutations("cij"):
        if order != ("c", "i", "j"):
            now = ", ".join(said[name] for name in order)
            words = f"with channels ordered by {now}, not by channel, row, column (axes exchanged, swapped)"
            kind = "coordinates-swapped" if order == ("c", "j", "i") else "layout-misread"
            rewrite = lambda given, o=order: shuffled(given, o)  # noqa: E731
            yield site.variant(kind, words, rewrite, 0, r"/|%")
