"""Faults of statistics over other elements: other axes, other groups, lost lanes and tiles."""

import math
from collections.abc import Callable, Iterator
from itertools import combinations

import torch

from agent.diagnosis.graph import Arguments, Rewrite
from agent.diagnosis.wrong_references.lanes import Kept, kept
from agent.diagnosis.wrong_references.norms import (
    SHAPES,
    STATISTICS,
    Norm,
    Pair,
    is_running,
    norm_of,
    with_factor,
)
from agent.diagnosis.wrong_references.rules import Site, Variant, rule

Tensor = torch.Tensor


@rule(*SHAPES)
def _other_axes(site: Site) -> Iterator[Variant]:
    """Yield variants with statistics over other axes, over other group counts, or of sample 0 for all."""
    if is_running(site):
        return
    norm = norm_of(site)

    def statistics(axes: tuple[int, ...], view: tuple[int, ...]) -> Rewrite:
        return site.first(lambda given: _over(norm._replace(axes=axes, view=view), given))

    dims = [axis for axis, size in enumerate(norm.view) if size > 1]
    usual = tuple(axis for axis in norm.axes if axis in dims)
    for number in range(1, len(dims) + 1):
        for axes in combinations(dims, number):
            if axes != usual:
                kind, words = _named(norm, axes, usual)
                yield site.variant(kind, words, statistics(axes, norm.view), 1, STATISTICS)
    if norm.groups > 1 or norm.channels > 1:
        for groups in range(1, norm.channels + 1):
            if (
                norm.channels % groups == 0
                and groups != norm.groups
                and site.call.name == "native_group_norm"
            ):
                view = (norm.view[0], groups, norm.channels // groups, *norm.view[3:])
                kind = "statistics-per-channel" if groups == norm.channels else "statistics-over-wrong-axes"
                each = " (one for each channel)" if groups == norm.channels else ""
                words = f"with statistics of {groups} groups{each}; the reference has {norm.groups}"
                yield site.variant(kind, words, statistics(norm.axes, view), 0, STATISTICS + "|group")
    if site.call.name == "native_group_norm" and 1 < norm.groups < norm.channels:
        words = "with the channels dealt to the groups in turn (c % groups): interleaved, not neighbours"
        dealt = site.first(lambda given: _dealt(norm, given))
        yield site.variant("layout-misread", words, dealt, 1, "%|group")
    if 0 not in norm.axes and norm.view[0] > 1:

        def first(mean: Tensor, var: Tensor) -> Pair:
            mean = mean[:1] if mean.dim() else mean
            return mean, (var[:1] + norm.eps).rsqrt()

        words = "with the statistics of sample 0 for every sample"
        yield site.variant(
            "statistics-over-batch", words, with_factor(site, norm, False, first), 0, STATISTICS
        )


def _dealt(norm: Norm, given: Arguments) -> Tensor:
    """Return the group norm with interleaved channels: channel c belongs to group c % groups."""
    x = given["input"]
    each = x.shape[1] // norm.groups
    rest = x.shape[2:]
    turned = x.reshape(-1, each, norm.groups, *rest).transpose(1, 2).reshape(x.shape)
    y = _over(norm, {**given, "input": turned, "weight": None, "bias": None})
    y = y.reshape(-1, norm.groups, each, *rest).transpose(1, 2).reshape(x.shape)
    return norm.affined(y, given.get("weight"), given.get("bias"))


def _over(norm: Norm, given: Arguments) -> Tensor:
    mean, var = norm.statistics(given["input"])
    y = norm.apply(given["input"], mean, (var + norm.eps).rsqrt())
    return norm.affined(y, given.get("weight"), given.get("bias"))


def _named(norm: Norm, axes: tuple[int, ...], usual: tuple[int, ...]) -> tuple[str, str]:
    spoken = ", ".join(f"{axis} (size {norm.view[axis]})" for axis in axes)
    seen = f" of the shape {norm.view}" if norm.groups > 1 else ""
    words = f"with statistics over dims {spoken}{seen}; the reference's are over {', '.join(map(str, usual))}"
    if norm.groups > 1 and axes == tuple(range(3, len(norm.view))):
        return (
            "statistics-per-channel",
            f"with statistics per channel: {words.removeprefix('with statistics ')}",
        )
    if 0 in axes and 0 not in usual and set(usual) <= set(axes):
        together = "with the statistics of all samples of the batch together, "
        return "statistics-over-batch", together + words.removeprefix("with statistics ")
    return "statistics-over-wrong-axes", words


@rule(*SHAPES, late=True)
def _lost(site: Site) -> Iterator[Variant]:
    """Yield variants with elements left out of the sums behind mean or variance."""
    norm = norm_of(site)
    if site.given.get("running_mean") is not None and not site.given.get("training", False):
        return
    count = math.prod(norm.view[axis] for axis in norm.axes)
    for subset in kept(count, site.facts):
        for where, form in _FORMS.items():
            if norm.centred or where in ("the sum of squares", "both sums"):
                words = f"with {where} taken {subset.words}"
                rewrite = site.first(lambda given, s=subset, f=form: _partial(norm, given, s, f))  # type: ignore[misc]
                yield site.variant(subset.kind, words, rewrite, 4 + subset.rank, "for|shfl|<")


Form = Callable[[Tensor, Tensor, bool], Pair]


def _both(rows: Tensor, mask: Tensor, centred: bool) -> Pair:
    count = rows.shape[-1]
    mean = (rows * mask).sum(-1, True) / count if centred else rows.new_zeros(())
    return mean, ((rows - mean).square() * mask).sum(-1, True) / count


def _mean_alone(rows: Tensor, mask: Tensor, centred: bool) -> Pair:
    mean = (rows * mask).sum(-1, True) / rows.shape[-1]
    return mean, (rows - mean).square().mean(-1, True)


def _squares_alone(rows: Tensor, mask: Tensor, centred: bool) -> Pair:
    mean = rows.mean(-1, True) if centred else rows.new_zeros(())
    return mean, ((rows - mean).square() * mask).sum(-1, True) / rows.shape[-1]


def _one_pass(rows: Tensor, mask: Tensor, centred: bool) -> Pair:
    mean = (rows * mask).sum(-1, True) / rows.shape[-1]
    return mean, (rows.square() * mask).sum(-1, True) / rows.shape[-1] - mean * mean


def _of_subset(rows: Tensor, mask: Tensor, centred: bool) -> Pair:
    chosen = rows[..., mask]
    mean = chosen.mean(-1, True) if centred else rows.new_zeros(())
    return mean, (chosen - mean).square().mean(-1, True)


def _mean_of_subset(rows: Tensor, mask: Tensor, centred: bool) -> Pair:
    mean = rows[..., mask].mean(-1, True) if centred else rows.new_zeros(())
    return mean, rows.var(-1, correction=0, keepdim=True)


_FORMS: dict[str, Form] = {
    "both sums": _both,
    "the sum behind the mean": _mean_alone,
    "the sum of squares": _squares_alone,
    "sum and sum of squares": _one_pass,
    "the statistics": _of_subset,
    "the mean alone": _mean_of_subset,
}


def _partial(norm: Norm, given: Arguments, subset: Kept, form: Form) -> Tensor:
    x = given["input"]
    v = x.reshape(norm.view)
    rest = [axis for axis in range(v.dim()) if axis not in norm.axes]
    moved = v.permute(*rest, *norm.axes)
    rows = moved.reshape(*(v.shape[axis] for axis in rest), -1)
    mean, var = form(rows, subset.mask.to(rows.device), norm.centred)
    y = (rows - mean) * (var + norm.eps).rsqrt()
    back = y.reshape(moved.shape).permute(*torch.argsort(torch.tensor([*rest, *norm.axes])).tolist())
    return norm.affined(back.reshape(x.shape), given.get("weight"), given.get("bias"))
