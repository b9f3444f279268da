"""Faults of a convolution's geometry: stride, padding, dilation, border and groups, also transposed."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from agent.diagnosis.graph import Arguments
from agent.diagnosis.wrong_references.composing import Form
from agent.diagnosis.wrong_references.rules import Site, Variant, rule
from agent.diagnosis.wrong_references.windows import full

Tensor = torch.Tensor
_TAPS = r"\bk[yxhwij]?\b|pad|stride|dilat"
_CHANNELS = r"\bc\b|channel|\bic\b|\boc\b|group"
_BORDERS = {"replicate": "repeated", "reflect": "mirrored", "circular": "wrapped around"}
Change = tuple[str, str, dict[str, Any], int, str]


class Geometry(NamedTuple):
    """Parts of a convolution; each tuple has one number for each spatial dimension."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    """Padding before the input. A transposed convolution crops as much from the beginning of the output."""
    dilation: tuple[int, ...]
    sizes: tuple[int, ...]
    """Spatial sizes of the output."""
    border: str = "zeros"
    inputs: str = "own"
    """Input channels of a group: `own`, `first`, `next`, `backwards`, `spread` (interleaved) or `modulo`."""
    filters: str = "own"
    """Filters of a group, named as for `inputs`."""
    outputs: str = "own"
    """Group of an output channel: `own`, or `modulo` for its index modulo the number of groups."""
    held: tuple[int, ...] = ()
    """Spatial dims of a transposed convolution whose gaps between inputs repeat the element before."""


def _computed(given: Arguments, parts: Geometry) -> Tensor:
    groups = given["groups"]
    x = _regrouped(given["input"], 1, groups, parts.inputs)
    weight = _regrouped(given["weight"], 0, groups, parts.filters)
    bias = given["bias"]
    turned = parts.outputs == "modulo" and not given["transposed"]
    order = torch.arange(weight.shape[0], device=weight.device)
    order = order.reshape(-1, groups).t().reshape(-1) if turned else order
    y = (_scattered if given["transposed"] else _gathered)(x, weight[order], parts, groups)
    y = y[:, order.argsort()] if turned else y
    return y if bias is None else y + bias.reshape(-1, *[1] * len(parts.sizes))


def _regrouped(t: Tensor, axis: int, groups: int, which: str) -> Tensor:
    """Return the channels or filters in the order in which the groups read them."""
    count = t.shape[axis]
    if which in ("own", "modulo") or groups == 1:
        return t
    grouped = torch.arange(count).reshape(groups, -1)
    if which == "first":
        index = grouped[:1].expand_as(grouped)
    elif which == "spread":
        index = torch.arange(count).reshape(-1, groups).t()
    elif which == "backwards":
        index = grouped.flip(0)
    else:
        index = grouped.roll(-1, 0)
    return t.index_select(axis, index.reshape(-1).to(t.device))


def _gathered(x: Tensor, weight: Tensor, parts: Geometry, groups: int) -> Tensor:
    """Compute a convolution: output element o reads input o * stride - padding + tap * dilation."""
    dims = len(parts.sizes)
    pads: list[int] = []
    for axis in reversed(range(dims)):
        reach = parts.dilation[axis] * (weight.shape[2 + axis] - 1) + 1
        needed = (parts.sizes[axis] - 1) * parts.stride[axis] + reach
        pads += [parts.padding[axis], needed - x.shape[2 + axis] - parts.padding[axis]]
    if parts.border == "zeros":
        x = F.pad(x, pads)
    else:
        x = F.pad(F.pad(x, [max(p, 0) for p in pads], mode=parts.border), [min(p, 0) for p in pads])
    if parts.inputs == "modulo":
        groups = weight.shape[0]
        x = x[:, torch.arange(groups) % x.shape[1]]
    run = (F.conv1d, F.conv2d, F.conv3d)[dims - 1]
    return torch.as_tensor(run(x, weight, None, parts.stride, 0, parts.dilation, groups))


def _scattered(x: Tensor, weight: Tensor, parts: Geometry, groups: int) -> Tensor:
    """Compute a transposed convolution: input i goes to output i * stride - padding + tap * dilation."""
    dims = len(parts.sizes)
    run = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[dims - 1]
    stride = parts.stride
    for axis in parts.held:
        x = x.repeat_interleave(stride[axis], 2 + axis)
        stride = _put(stride, (axis,), 1)
    whole = torch.as_tensor(run(x, weight, None, stride, 0, 0, groups, parts.dilation))
    pads: list[int] = []
    for axis in reversed(range(dims)):
        after = parts.sizes[axis] + parts.padding[axis] - whole.shape[2 + axis]
        pads += [-parts.padding[axis], after]
    return F.pad(whole, pads)


@rule("convolution")
def _geometries(site: Site) -> Iterator[Variant]:
    given = site.given
    dims = given["weight"].dim() - 2
    stride, padding, dilation = (tuple(full(given[n], dims, [])) for n in ("stride", "padding", "dilation"))
    own = Geometry(stride, padding, dilation, tuple(site.call.result.shape[2:]))
    changes = [*_each(own), *_exchanged(own), *_borders(own, bool(given["transposed"]))]
    changes += _held(own) if given["transposed"] else []
    if given["groups"] > 1:
        changes += _groups()
    if (
        given["weight"].shape[1] == 1
        and not given["transposed"]
        and given["weight"].shape[0] > given["groups"]
    ):
        words = "with the input channel of output channel o taken as o modulo the number of input channels"
        changes.append(("wrong-channel", words, {"inputs": "modulo"}, 0, _CHANNELS))
    for kind, words, changed, rank, tokens in changes:
        yield site.variant(kind, words, Form(_computed, own, changed), rank, tokens)


def _each(own: Geometry) -> Iterator[Change]:
    dims = range(len(own.sizes))
    for axes in (tuple(dims), *((axis,) for axis in dims if len(own.sizes) > 1)):
        along = "" if len(axes) == len(own.sizes) else f" along spatial dim {axes[0]}"
        first, rank = axes[0], int(bool(along))
        for stride in (1, 2, 3):
            if any(own.stride[axis] != stride for axis in axes):
                words = f"with stride {stride}{along}; the reference has {own.stride[first]}"
                changed = {"stride": _put(own.stride, axes, stride)}
                yield "stride-ignored", words, changed, rank + (stride > 1), _TAPS
        for dilation in (1, 2):
            if any(own.dilation[axis] != dilation for axis in axes):
                words = f"with dilation {dilation}{along}; the reference has {own.dilation[first]}"
                changed = {"dilation": _put(own.dilation, axes, dilation)}
                yield "dilation-ignored", words, changed, rank + (dilation > 1), _TAPS
                begins = tuple(
                    pad * new // old
                    for pad, new, old in zip(own.padding, changed["dilation"], own.dilation, strict=True)
                )
                if begins != own.padding:
                    both = f"{words}, and a padding of {begins[first]} that goes with it"
                    yield "dilation-ignored", both, changed | {"padding": begins}, rank + 1, _TAPS
        if any(own.padding[axis] for axis in axes):
            words = f"with no padding{along}; the reference has {own.padding[first]}"
            yield "padding-ignored", words, {"padding": _put(own.padding, axes, 0)}, rank, _TAPS
        for delta in (-1, 1, -2, 2):
            begins = tuple(size + delta * (axis in axes) for axis, size in enumerate(own.padding))
            if any(begins) or not any(own.padding):
                words = (
                    f"with a padding of {begins[first]} before{along}; the reference has {own.padding[first]}"
                )
                yield "padding-off-by-one", words, {"padding": begins}, rank, _TAPS


def _put(values: tuple[int, ...], axes: tuple[int, ...], new: int) -> tuple[int, ...]:
    return tuple(new if axis in axes else old for axis, old in enumerate(values))


def _exchanged(own: Geometry) -> Iterator[Change]:
    kinds = {"stride": "stride-ignored", "padding": "padding-sides-swapped", "dilation": "dilation-ignored"}
    for part, kind in kinds.items():
        sizes = getattr(own, part)
        if sizes != sizes[::-1]:
            words = f"with the {part} of the first and the last spatial dim exchanged (swapped)"
            yield kind, words, {part: sizes[::-1]}, 1, _TAPS


def _held(own: Geometry) -> Iterator[Change]:
    """Yield changes to a transposed convolution that does not test if the stride divides a position."""
    long = tuple(axis for axis, stride in enumerate(own.stride) if stride > 1)
    for axes in dict.fromkeys((long, *((axis,) for axis in long))):
        if axes:
            words = (
                f"without the test whether the stride divides the place, along spatial dims {axes}: places "
                "between the input's (odd ones) take the element before"
            )
            yield "stride-ignored", words, {"held": axes}, 1, _TAPS


def _borders(own: Geometry, transposed: bool) -> Iterator[Change]:
    for mode, spoken in _BORDERS.items() if any(own.padding) and not transposed else ():
        words = f"with the border {spoken} where the reference pads with zeros"
        yield "padding-ignored", words, {"border": mode}, 1, _TAPS


_OTHERS = {
    "spread": "every so many channels, not its neighbours",
    "next": "the next group",
    "backwards": "the group counted from the end",
}


def _groups() -> Iterator[Change]:
    words = "with output channel o of group o modulo the number of groups, as if channels were interleaved"
    yield "wrong-channel", words, {"outputs": "modulo"}, 1, _CHANNELS
    words = "with groups ignored: every group reads the channels of the first"
    yield "groups-ignored", words, {"inputs": "first"}, 0, _CHANNELS
    words = "with the filters of the first group for every group"
    yield "wrong-channel", words, {"filters": "first"}, 1, _CHANNELS
    for which, spoken in _OTHERS.items():
        words = f"with each group reading the input channels of {spoken}: its channel index is wrong"
        yield "wrong-channel", words, {"inputs": which}, 1, _CHANNELS
        words = f"with each group using the filters of {spoken}: its channel index is wrong"
        yield "wrong-channel", words, {"filters": which}, 1, _CHANNELS
