"""Faults of convolutions in any number of dimensions, including transposed ones."""

from collections.abc import Callable, Iterator

import torch

from agent.diagnosis.graph import Rewrite
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
    yield from _layouts(site)
    if bias is not None:
        for kind, words, times in (
            ("bias-missing", "with the bias missing", 0.0),
            ("bias-doubled", "with the bias added twice", 2.0),
            ("sign-error", "with the bias subtracted", -1.0),
        ):
            yield site.variant(kind, words, site.changed(bias=lambda b, t=times: t * b), 0, r"bias|\bb\[")
        first = site.changed(bias=lambda b: b[:1].expand_as(b))
        yield site.variant("bias-wrong-index", "with the bias of channel 0 for all", first, 1, r"bias|\bb\[")
        groups = site.given["groups"]
        for among, index in _of_groups(bias.numel(), groups) if groups > 1 else ():
            picked = site.changed(bias=lambda b, i=index: b[i.to(b.device)])
            words = f"with the bias of the {among} for that of the output channel"
            yield site.variant("bias-wrong-index", words, picked, 1, r"bias|\bb\[")
        inner = site.changed(bias=lambda b: b.roll(1))
        yield site.variant("bias-wrong-index", "with the bias of the channel before", inner, 2, r"bias|\bb\[")
    for bits, change in PRECISIONS.items():
        words = f"with operands rounded to {bits}: reduced precision"
        yield site.variant(
            "reduced-precision", words, site.changed(input=change, weight=change), 2, "half|16|tf32"
        )


def _of_groups(count: int, groups: int) -> Iterator[tuple[str, Tensor]]:
    """Yield wrong indices into the bias, each with its description."""
    channel = torch.arange(count)
    yield "group (input channel)", channel // (count // groups)
    yield "channel within its group", channel % (count // groups)
    yield "channel modulo the number of groups", channel % groups


def _lost_taps(site: Site, spatial: list[int]) -> Iterator[Variant]:
    for axis in spatial:
        size = site.given["weight"].shape[axis]
        for place, words in ((size - 1, "last"), (0, "first")):
            if size > 1:

                def without(w: Tensor, axis: int = axis, place: int = place) -> Tensor:
                    return w.index_fill(axis, torch.tensor([place], device=w.device), 0.0)

                words = f"without the {words} filter tap along spatial dim {axis - 2}"
                yield site.variant("last-element-left-out", words, site.changed(weight=without), 1, _TAPS)


def _layouts(site: Site) -> Iterator[Variant]:
    """Yield variants that read the filter's memory with two axes exchanged."""
    weight, groups = site.given["weight"], site.given["groups"]
    names = [
        "output channels",
        "input channels",
        *(f"spatial dim {axis}" for axis in range(weight.dim() - 2)),
    ]
    if site.given["transposed"]:
        names[:2] = names[1::-1]
    shape = (groups, weight.shape[0] // groups, *weight.shape[1:])
    for one in range(1, len(shape)):
        for other in range(1, one):
            if min(shape[one], shape[other]) > 1:

                def reread(w: Tensor, one: int = one, other: int = other) -> Tensor:
                    turned = list(shape)
                    turned[one], turned[other] = turned[other], turned[one]
                    return w.reshape(turned).transpose(one, other).reshape(w.shape)

                channels = (one, other) == (2, 1)
                words = f"with the memory of the filter (weight) read with its {names[other - 1]} and "
                words += f"{names[one - 1]} exchanged (transposed layout)"
                kind = "wrong-channel" if channels else "transposed-filter" if other > 2 else "layout-misread"
                kind = "transposed-filter" if channels and site.given["transposed"] else kind
                yield site.variant(kind, words, site.changed(weight=reread), 0 if channels else 1, _TAPS)


def _channels(site: Site) -> Iterator[Variant]:
    weight, flipped = site.given["weight"], site.given["transposed"]
    out, inner = weight.shape[:2]
    tokens = r"\bc\b|channel|\bic\b|\boc\b"
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
