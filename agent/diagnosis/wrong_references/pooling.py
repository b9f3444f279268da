"""Faults of maximum and average pooling."""

import math
from collections.abc import Iterator
from typing import Any

from agent.diagnosis import roles
from agent.diagnosis.wrong_references.composing import Form
from agent.diagnosis.wrong_references.rules import Site, Variant, rule
from agent.diagnosis.wrong_references.windows import Pool, full, pooled, pooled_with_places

_WINDOW = r"\bk[yxhwij]?\b|pad|stride|best|max|sum|/"
_START = r"(?:best|\w*max\w*|largest|top|m|v)\s*=\s*-?[\d.]+f?;"
Change = tuple[str, str, dict[str, Any], int, str]
"""Kind, words, changed parts, rank and tokens of a fault."""


def _of(site: Site, dims: int) -> Pool:
    given, largest = site.given, site.call.name.startswith("max")
    kernel = full(given["kernel_size"], dims, [])
    padding = full(given["padding"], dims, [0] * dims)
    assert site.call.value is not None
    counted = "padded" if given.get("count_include_pad", True) else "inside"
    stride, dilation = full(given["stride"], dims, kernel), full(given.get("dilation", 1), dims, [1] * dims)
    return Pool(
        kernel, stride, padding, dilation,
        list(site.call.value.shape[-dims:]), padding, "max" if largest else "mean",
        given.get("divisor_override") or counted,
    )  # fmt: skip


@rule("max_pool2d_with_indices", "max_pool3d_with_indices", "max_pool2d", "avg_pool2d", "avg_pool3d")
def _pools(site: Site) -> Iterator[Variant]:
    dims = int(site.call.name.partition("pool")[2][0])
    own = _of(site, dims)
    both = isinstance(site.call.result, tuple)
    compute = pooled_with_places if both else pooled
    parts = [*_windows(own), *_exchanged(own), *(_extremes if own.reduce == "max" else _averages)(site, own)]
    for kind, words, changes, rank, tokens in (*parts, *(_indices(own) if both else ())):
        yield site.variant(kind, words, Form(compute, own, changes), rank, tokens)


def _windows(own: Pool) -> Iterator[Change]:
    dims = range(len(own.kernel))
    for axes in (list(dims), *([axis] for axis in dims if len(own.kernel) > 1)):
        along = "" if len(axes) == len(own.kernel) else f" along spatial dim {axes[0]}"
        rank, was = 2 if along else 1, own.kernel[axes[0]]
        for delta in (-2, -1, 1, 2):
            begins = _moved(own.padding, axes, delta)
            ignored = any(own.padding) and not any(begins)
            kind = "padding-ignored" if ignored else "padding-off-by-one"
            words = (
                f"with a padding of {begins[axes[0]]} before{along}; the reference has {own.padding[axes[0]]}"
            )
            yield kind, words, {"padding": begins}, rank, _WINDOW
            if own.reduce == "mean" and own.divisor == "padded":
                whole = f"{words}; divided by the whole window everywhere"
                yield kind, whole, {"padding": begins, "divisor": "taps"}, rank + 1, _WINDOW
            kernel = _moved(own.kernel, axes, delta)
            if min(kernel) > 0:
                words = f"with a window (kernel) of {kernel[axes[0]]}{along}; the reference has {was}"
                yield "pool-window", words, {"kernel": kernel}, rank, _WINDOW
                if own.reduce == "mean" and delta == -1:
                    words = f"without the last tap of the window{along}; the divisor counts it"
                    changes = {"kernel": kernel, "divisor": float(math.prod(own.kernel))}
                    yield "last-element-left-out", words, changes, rank, _WINDOW
        if any(own.padding[axis] for axis in axes):
            begins = [0 if axis in axes else size for axis, size in enumerate(own.padding)]
            words = f"with the padding ignored{along}: windows begin inside"
            yield "padding-ignored", words, {"padding": begins}, rank, _WINDOW
        for stride in sorted({1, 2, 3, own.kernel[axes[0]]} - {own.stride[axes[0]]}):
            strides = [stride if axis in axes else size for axis, size in enumerate(own.stride)]
            words = f"with stride {stride}{along}; the reference has {own.stride[axes[0]]}"
            yield "stride-ignored", words, {"stride": strides}, rank, _WINDOW
        if any(own.dilation[axis] > 1 for axis in axes):
            dilation = [1 if axis in axes else size for axis, size in enumerate(own.dilation)]
            words = f"with the dilation ignored{along}: neighbours in the window"
            yield "dilation-ignored", words, {"dilation": dilation}, rank - 1, _WINDOW
            centred = {"dilation": dilation, "padding": [0] * len(own.padding)}
            yield "dilation-ignored", f"{words}, and no padding", centred, rank, _WINDOW


def _moved(sizes: list[int], axes: list[int], delta: int) -> list[int]:
    return [size + delta * (axis in axes) for axis, size in enumerate(sizes)]


def _exchanged(own: Pool) -> Iterator[Change]:
    """Yield changes that exchange the parameters of two dimensions, or use one value for all dimensions."""
    for one in range(len(own.kernel)):
        for other in range(one):
            for part, kind, words in (
                ("kernel", "pool-window", "with the window's sides exchanged"),
                ("stride", "stride-ignored", "with the strides exchanged"),
                ("padding", "padding-sides-swapped", "with the paddings exchanged"),
            ):
                sizes = list(getattr(own, part))
                sizes[one], sizes[other] = sizes[other], sizes[one]
                if sizes != getattr(own, part):
                    said = f"{words} between spatial dims {other} and {one}"
                    yield kind, said, {part: sizes}, 1, _WINDOW
    for part, kind in (
        ("kernel", "pool-window"),
        ("stride", "stride-ignored"),
        ("padding", "padding-off-by-one"),
    ):
        for size in sorted(set(getattr(own, part))) if len(set(getattr(own, part))) > 1 else ():
            words = f"with the {part} {size} along every dim; the reference has {getattr(own, part)}"
            yield kind, words, {part: [size] * len(own.kernel)}, 1, _WINDOW


def _extremes(site: Site, own: Pool) -> Iterator[Change]:
    starts = [0.0, -1.0, 1.0, *(v for real in site.facts.real[:40] for v in (-real, real))]
    for start in dict.fromkeys(starts):
        yield "pool-start-value", f"with the maximum starting at {start:g}", {"start": start}, 0, _START
    words = "with zeros in the padding, which take part in the maximum: padding starts at zero"
    yield "pool-start-value", words, {"zeros": True}, 0, "pad|0"
    negated = roles.source(site.tape, site.given["self"])[0]
    if negated is not None and negated.name == "neg":
        words = "with the maximum of the window for its minimum, which is that of negated elements, negated"
        yield "max-for-min", words, {"reduce": "min"}, 0, "max"
    else:
        yield "min-for-max", "with the minimum of the window", {"reduce": "min"}, 1, "min"
    mean = {"reduce": "mean"}
    yield "wrong-activation", "with the mean of the window for its maximum", mean, 1, _WINDOW


def _indices(own: Pool) -> Iterator[Change]:
    for index, words in (
        ("window", "with indices counted from the window's start"),
        ("padded", "with indices into the padded plane"),
        ("tensor", "with indices counted from the start of the whole tensor"),
        ("turned", "with indices that count columns first"),
    ):
        yield "wrong-index-base", words, {"numbering": index}, 1, r"\[.*\] ="
    yield "tie-order", "with the index of the last of equal elements", {"last": True}, 1, "<|>"


def _averages(site: Site, own: Pool) -> Iterator[Change]:
    taps, reference = math.prod(own.kernel), own.divisor
    spoken = {
        "padded": "the window, the padding counted, but nothing beyond it",
        "inside": "the elements inside",
        "taps": f"the whole window of {taps}",
    }
    others: list[str | float] = [name for name in spoken if name != reference]
    others += sorted(
        {taps - 1, taps + 1, *own.kernel, *own.stride, 2, 4, 9, math.prod(own.stride)} - {taps, 0, 1}
    )
    others += [float(v) for v in site.facts.whole if 1 < v <= 4 * taps]
    was = spoken[reference] if isinstance(reference, str) else f"{reference:g}"
    for divisor in dict.fromkeys(others):
        if divisor != reference:
            said = spoken[divisor] if isinstance(divisor, str) else f"{divisor:g}"
            words = f"divided by {said}; the reference divides by the number of {was}"
            if not isinstance(reference, str):
                words = f"divided by {said}; the reference divides by {was}"
            yield (
                "pool-divisor",
                words,
                {"divisor": divisor},
                int(not isinstance(divisor, str)),
                r"/|seen|count",
            )
    words = "with the sum of the window for its mean: not divided by the count"
    yield "sum-for-mean", words, {"divisor": 1.0}, 0, "/|sum"
    yield "max-for-mean", "with the maximum of the window for its mean", {"reduce": "max"}, 1, _WINDOW
