"""Faults of convolutions, in any number of dimensions, also transposed ones."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F

from agent.diagnosis.tape import Arguments, Rewrite, invoke
from agent.diagnosis.wrong_references.products import PRECISIONS
from agent.diagnosis.wrong_references.rules import Site, Variant, rule

Tensor = torch.Tensor
_TAPS = r"\bk[yxhwij]?\b|pad|stride|dilat"


@rule("convolution")
def _convolutions(site: Site) -> Iterator[Variant]:
    weight, bias = site.given["weight"], site.given["bias"]
    spatial = list(range(2, weight.dim()))

    def filtered(change: Callable[[Tensor], Tensor]) -> Rewrite:
        return site.changed(weight=change)

    if max(weight.shape[2:]) > 1:
        words = "with the filter flipped: read backwards"
        yield site.variant("flipped-filter", words, filtered(lambda w: w.flip(spatial)), 0, _TAPS)
        for axis in spatial if len(spatial) > 1 else []:
            words = f"with the filter flipped along spatial dim {axis - 2}"
            yield site.variant("flipped-filter", words, filtered(lambda w, a=axis: w.flip(a)), 1, _TAPS)  # type: ignore[misc]
        yield from _lost_taps(site, spatial)
    if len(spatial) > 1 and weight.shape[-1] == weight.shape[-2] > 1:
        words = "with the filter transposed: its rows and columns exchanged"
        yield site.variant("transposed-filter", words, filtered(lambda w: w.transpose(-1, -2)), 0, _TAPS)
    yield from _channels(site)
    if bias is not None:
        for kind, words, times in (
            ("bias-missing", "with the bias missing", 0.0),
            ("bias-doubled", "with the bias added twice", 2.0),
            ("sign-error", "with the bias subtracted", -1.0),
        ):
            yield site.variant(kind, words, site.changed(bias=lambda b, t=times: t * b), 0, r"bias|\bb\[")
        first = site.changed(bias=lambda b: b[:1].expand_as(b))
        yield site.variant("bias-wrong-index", "with the bias of channel 0 for all", first, 1, r"bias|\bb\[")
        inner = site.changed(bias=lambda b: b.roll(1))
        yield site.variant("bias-wrong-index", "with the bias of the channel before", inner, 2, r"bias|\bb\[")
    if not site.given["transposed"]:
        yield from _geometry(site)
    for bits, change in PRECISIONS.items():
        words = f"with operands rounded to {bits}: reduced precision"
        yield site.variant(
            "reduced-precision", words, site.changed(input=change, weight=change), 2, "half|16|tf32"
        )


def _lost_taps(site: Site, spatial: list[int]) -> Iterator[Variant]:
    for axis in spatial:
        size = site.given["weight"].shape[axis]
        for place, words in ((size - 1, "last"), (0, "first")):
            if size > 1:

                def without(w: Tensor, axis: int = axis, place: int = place) -> Tensor:
                    return w.index_fill(axis, torch.tensor([place], device=w.device), 0.0)

                words = f"without the {words} filter tap along spatial dim {axis - 2}"
                yield site.variant("last-element-left-out", words, site.changed(weight=without), 1, _TAPS)


def _channels(site: Site) -> Iterator[Variant]:
    weight, groups, flipped = site.given["weight"], site.given["groups"], site.given["transposed"]
    out, inner = weight.shape[:2]
    tokens = r"\bc\b|channel|\bic\b|\boc\b"
    if out > 1 and inner > 1:

        def reread(w: Tensor) -> Tensor:
            return w.reshape(inner, out, *w.shape[2:]).transpose(0, 1)

        words = "with the filter's input and output channels exchanged: read as (in, out) for (out, in)"
        yield site.variant("wrong-channel", words, site.changed(weight=reread), 0, tokens)
    if inner > 1 and not flipped:

        def first(w: Tensor) -> Tensor:
            return torch.cat([w[:, :1], torch.zeros_like(w[:, 1:])], 1)

        def without_last(w: Tensor) -> Tensor:
            return torch.cat([w[:, :-1], torch.zeros_like(w[:, -1:])], 1)

        yield site.variant(
            "wrong-channel", "with the first input channel alone", site.changed(weight=first), 1, tokens
        )
        words = "without the last input channel"
        yield site.variant("last-element-left-out", words, site.changed(weight=without_last), 1, tokens)
        same = site.changed(weight=lambda w: w[:, :1].expand_as(w))
        yield site.variant("wrong-channel", "with the filter of input channel 0 for all", same, 1, tokens)
    if out > 1 and not flipped:
        same = site.changed(weight=lambda w: w[:1].expand_as(w))
        yield site.variant("wrong-channel", "with the filter of output channel 0 for all", same, 1, tokens)
        last = site.changed(weight=lambda w: w.flip(0))
        yield site.variant("wrong-channel", "with the output channels in reverse order", last, 2, tokens)
    if groups > 1 and not flipped:
        per = inner

        def ungrouped(given: Arguments) -> Any:
            x = given["input"][:, :per].repeat(1, groups, *[1] * (weight.dim() - 2))
            return invoke(site.call.func, given | {"input": x})

        words = "with groups ignored: every group reads the channels of the first"
        yield site.variant("groups-ignored", words, ungrouped, 0, tokens)
        same = site.changed(weight=lambda w: w[: out // groups].repeat(groups, *[1] * (w.dim() - 1)))
        yield site.variant(
            "wrong-channel", "with the filters of the first group for every group", same, 1, tokens
        )


def _geometry(site: Site) -> Iterator[Variant]:
    """Strides, dilations and paddings that are not the reference's, for an output of the same shape."""
    given = site.given
    dims = given["weight"].dim() - 2
    stride, padding, dilation = (_full(given[name], dims) for name in ("stride", "padding", "dilation"))

    def moved(strides: list[int], begins: list[int], dilations: list[int], mode: str = "zeros") -> Rewrite:
        return lambda given: _placed(given, strides, begins, dilations, mode)

    once = [1] * dims
    if stride != once:
        yield site.variant(
            "stride-ignored",
            f"with stride 1; the reference has {stride[0]}",
            moved(once, padding, dilation),
            0,
            _TAPS,
        )
    if dilation != once:
        yield site.variant(
            "dilation-ignored",
            f"with dilation 1; the reference has {dilation[0]}",
            moved(stride, padding, once),
            0,
            _TAPS,
        )
        if stride != once:
            words = "with stride and dilation ignored"
            yield site.variant("dilation-ignored", words, moved(once, padding, once), 1, _TAPS)
    for kind, words, begins, rank in _other_paddings(padding):
        yield site.variant(kind, words, moved(stride, begins, dilation), rank, _TAPS)
    for mode, spoken in _BORDERS.items() if any(padding) else ():
        words = f"with the border {spoken} where the reference pads with zeros"
        yield site.variant("padding-ignored", words, moved(stride, padding, dilation, mode), 1, _TAPS)


_BORDERS = {"replicate": "repeated", "reflect": "mirrored", "circular": "wrapped around"}


def _other_paddings(padding: list[int]) -> Iterator[tuple[str, str, list[int], int]]:
    """Kind, words, padding before each dim, and rank: some more or less, everywhere or along one dim."""
    none = [0] * len(padding)
    if any(padding):
        yield "padding-ignored", f"with no padding; the reference has {padding[0]}", none, 0
    for delta in (-1, 1, -2, 2):
        begins = [begin + delta for begin in padding]
        if begins != none or not any(padding):
            words = f"with a padding of {begins[0]} before; the reference has {padding[0]}"
            yield "padding-off-by-one", words, begins, 0
        for axis in range(len(padding)) if len(padding) > 1 else ():
            begins = [begin + delta * (axis == place) for place, begin in enumerate(padding)]
            words = (
                f"with a padding of {begins[axis]} before dim {axis + 2}; the reference has {padding[axis]}"
            )
            yield "padding-off-by-one", words, begins, 1


def _full(value: Any, dims: int) -> list[int]:
    return list(value) * dims if len(value) == 1 else list(value)


def _placed(given: Arguments, stride: list[int], begins: list[int], dilation: list[int], mode: str) -> Tensor:
    """Output element o reads input o * stride - begin + tap * dilation; the rest of the shape stays."""
    x, weight, bias = given["input"], given["weight"], given["bias"]
    dims = weight.dim() - 2
    own = [_full(given[name], dims) for name in ("stride", "padding", "dilation")]
    pads: list[int] = []
    for axis in reversed(range(dims)):
        size, taps = x.shape[2 + axis], weight.shape[2 + axis]
        outputs = (size + 2 * own[1][axis] - own[2][axis] * (taps - 1) - 1) // own[0][axis] + 1
        needed = (outputs - 1) * stride[axis] + dilation[axis] * (taps - 1) + 1
        pads += [begins[axis], needed - size - begins[axis]]
    if mode == "zeros":
        x = F.pad(x, pads)
    else:
        x = F.pad(F.pad(x, [max(p, 0) for p in pads], mode=mode), [min(p, 0) for p in pads])
    run = (F.conv1d, F.conv2d, F.conv3d)[dims - 1]
    return torch.as_tensor(run(x, weight, bias, stride, 0, dilation, given["groups"]))
