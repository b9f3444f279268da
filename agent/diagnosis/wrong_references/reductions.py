"""Faults of reductions: sums, means, extremes, products, variances and norms."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from agent.diagnosis.graph import Arguments, Rewrite
from agent.diagnosis.wrong_references.lanes import kept
from agent.diagnosis.wrong_references.rules import Site, Variant, rule

Tensor = torch.Tensor
Rows = Callable[[Tensor], Tensor]
"""Function that reduces the last dimension of a tensor."""
LOOP = r"for|\+=|max|min"


def axes_of(x: Tensor, dim: Any) -> list[int]:
    """Return the reduced dimensions in ascending order; all of them for None or an empty list."""
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return list(range(x.dim()))
    return sorted(axis % max(x.dim(), 1) for axis in (dim if isinstance(dim, (list, tuple)) else [dim]))


def rows_of(x: Tensor, axes: list[int]) -> Tensor:
    """Return x with the reduced elements in one last dim, in memory order."""
    rest = [axis for axis in range(x.dim()) if axis not in axes]
    return x.permute(*rest, *axes).reshape(*(x.shape[axis] for axis in rest), -1)


def shaped(result: Tensor, x: Tensor, axes: list[int], keepdim: bool) -> Tensor:
    """Return `result` in the operator's output shape."""
    kept_shape = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
    return result.reshape(kept_shape) if keepdim else result


_PLAIN: dict[str, Rows] = {
    "sum": lambda rows: rows.sum(-1),
    "mean": lambda rows: rows.mean(-1),
    "amax": lambda rows: rows.amax(-1),
    "amin": lambda rows: rows.amin(-1),
    "max": lambda rows: rows.amax(-1),
    "min": lambda rows: rows.amin(-1),
    "prod": lambda rows: rows.prod(-1),
    "logsumexp": lambda rows: rows.logsumexp(-1),
    "any": lambda rows: rows.any(-1),
    "all": lambda rows: rows.all(-1),
    "count_nonzero": lambda rows: (rows != 0).sum(-1),
}
BY_ORDER: dict[float, Rows] = {
    1.0: lambda rows: rows.abs().sum(-1),
    2.0: lambda rows: rows.square().sum(-1).sqrt(),
    math.inf: lambda rows: rows.abs().amax(-1),
}


def _of_order(order: float) -> Rows:
    """Return the norm of the given order."""
    return lambda rows: rows.abs().pow(order).sum(-1).pow(1 / order)


def plain_of(site: Site) -> Rows | None:
    """Return the operator's reduction over the last dimension; None if it has no rule."""
    given, name = site.given, site.call.name
    if name == "linalg_vector_norm":
        order = float(given["ord"])
        return BY_ORDER.get(order, _of_order(order)) if order > 0 else None
    if name in ("var", "std"):
        correction = correction_of(given)
        root = torch.sqrt if name == "std" else torch.clone
        return lambda rows: root(rows.var(-1, correction=int(correction)))
    return _PLAIN.get(name)


def correction_of(given: Arguments) -> float:
    if isinstance(given.get("unbiased"), bool):
        return float(given["unbiased"])
    return 1.0 if given.get("correction") is None else float(given["correction"])


def over(site: Site, reduce: Rows, axes: list[int] | None = None, change: Rows | None = None) -> Rewrite:
    """Return the operator as `reduce` over rows, after `change` of the rows."""

    def run(given: Arguments) -> Tensor:
        x = given["self"]
        own = axes_of(x, given.get("dim"))
        rows = rows_of(x, own if axes is None else axes)
        rows = rows if change is None else change(rows)
        return shaped(reduce(rows), x, own if axes is None else axes, bool(given.get("keepdim")))

    return site.first(run)


@rule(*_PLAIN, "linalg_vector_norm", "var", "std")
def _reductions(site: Site) -> Iterator[Variant]:
    x, reduce = site.given["self"], plain_of(site)
    two_operands = "other" in site.given
    if reduce is None or two_operands or x.dim() == 0:
        return
    axes = axes_of(x, site.given.get("dim"))
    count = math.prod(x.shape[axis] for axis in axes)
    if count < 2:
        return
    yield from _wrong_axes(site, reduce, axes, count)
    yield from _wrong_function(site, axes, count)
    yield from _wrong_count(site, axes, count)
    yield from _start_values(site)


@rule(*_PLAIN, "linalg_vector_norm", "var", "std", late=True)
def _lost(site: Site) -> Iterator[Variant]:
    x, reduce = site.given["self"], plain_of(site)
    if reduce is None or "other" in site.given or x.dim() == 0:
        return
    count = math.prod(x.shape[axis] for axis in axes_of(x, site.given.get("dim")))
    for subset in kept(count, site.facts):
        if site.call.name in ("var", "std") and int(subset.mask.sum()) < 2:
            continue
        mask = subset.mask.to(x.device)
        words = f"with {site.label} taken {subset.words}"
        rewrite = over(site, _same_count(site, reduce, count), None, lambda rows, m=mask: rows[..., m])  # type: ignore[misc]
        yield site.variant(subset.kind, words, rewrite, 4 + subset.rank, LOOP)
        if site.call.name in ("mean", "var", "std"):
            divided = over(site, reduce, None, lambda rows, m=mask: rows[..., m])  # type: ignore[misc]
            yield site.variant(
                subset.kind, words + ", divided by their number", divided, 5 + subset.rank, LOOP
            )


def _same_count(site: Site, reduce: Rows, count: int) -> Rows:
    """Return a reduction whose mean over fewer elements is still divided by `count`."""
    return (lambda rows: rows.sum(-1) / count) if site.call.name == "mean" else reduce


def _wrong_axes(site: Site, reduce: Rows, axes: list[int], count: int) -> Iterator[Variant]:
    x, keepdim = site.given["self"], bool(site.given.get("keepdim"))
    wanted = shaped(torch.empty([s for a, s in enumerate(x.shape) if a not in axes]), x, axes, keepdim).shape
    for axis in range(x.dim()):
        if [axis] != axes and x.shape[axis] > 1:
            words = f"with {site.label} over dim {axis}; the reference's is over {', '.join(map(str, axes))}"
            kind = "statistics-over-wrong-axes" if site.call.name in ("var", "std") else "wrong-axis"
            yield site.variant(kind, words, over(site, reduce, [axis]), 1, LOOP)
    if len(axes) < x.dim() and axes != list(range(x.dim() - len(axes), x.dim())):

        def rows(given: Arguments) -> Tensor:
            return reduce(given["self"].reshape(-1, count)).reshape(wanted)

        words = f"with {site.label} over {count} neighbours in memory, as if the reduced dim were the last"
        yield site.variant("layout-misread", words, site.first(rows), 2, LOOP)
    if len(axes) < x.dim() and axes != list(range(len(axes))):

        def columns(given: Arguments) -> Tensor:
            return reduce(given["self"].reshape(count, -1).t()).reshape(wanted)

        words = (
            f"with {site.label} over elements that lie a column apart, as if the reduced dim were the first"
        )
        yield site.variant("layout-misread", words, site.first(columns), 2, LOOP)

    def first(result: Tensor) -> Tensor:
        return result[:1].expand_as(result).clone() if result.dim() else result

    if x.shape[0] > 1 and 0 not in axes:
        words = f"with {site.label} of sample 0 for every sample"
        yield site.variant("first-batch-only", words, site.around(first), 2, "blockIdx|batch")


def _wrong_function(site: Site, axes: list[int], count: int) -> Iterator[Variant]:
    name = site.call.name.removeprefix("a") if site.call.name in ("amax", "amin") else site.call.name
    others: dict[str, Rows] = {
        "max": lambda rows: rows.amax(-1), "min": lambda rows: rows.amin(-1),
        "mean": lambda rows: rows.mean(-1), "sum": lambda rows: rows.sum(-1),
        "maximum of the absolute values": lambda rows: rows.abs().amax(-1),
        "first element": lambda rows: rows[..., 0], "last element": lambda rows: rows[..., -1],
    }  # fmt: skip
    if name in ("any", "all"):
        others = {other: _PLAIN[other] for other in ("any", "all")}
    others.pop(name, None)
    for other, reduce in others.items():
        kind = {("sum", "mean"): "sum-for-mean", ("mean", "sum"): "mean-for-sum"}.get((other, name), "")
        kind = kind or (f"{other}-for-{name}" if f"{other}-for-{name}" in _NAMED else "wrong-activation")
        words = f"with the {other} for {site.label}"
        yield site.variant(kind, words, over(site, reduce), 1 if kind in _NAMED else 3, LOOP)
    if name == "sum" or name == "mean":
        scale = 1 if name == "sum" else count
        squared = over(site, lambda rows: rows.square().sum(-1) / scale)
        yield site.variant("square-omitted", f"with squares in {site.label}", squared, 3, LOOP)
        absolute = over(site, lambda rows: rows.abs().sum(-1) / scale)
        yield site.variant("square-omitted", f"with absolute values in {site.label}", absolute, 3, LOOP)


_NAMED = {"max-for-min", "min-for-max", "max-for-mean", "sum-for-mean", "mean-for-sum"}


def _wrong_count(site: Site, axes: list[int], count: int) -> Iterator[Variant]:
    x, name = site.given["self"], site.call.name
    if name in ("var", "std"):
        correction = correction_of(site.given)
        other = 0 if correction else 1
        root = torch.sqrt if name == "std" else torch.clone
        rewrite = over(site, lambda rows: root(rows.var(-1, correction=other)))
        kind = "biased-variance" if correction else "unbiased-variance"
        words = (
            f"with the {kind.replace('-', ' ')}: divided by n - {other} of n = {count}; "
            f"the reference by n - {correction:g}"
        )
        yield site.variant(kind, words, rewrite, 0, "/")
        turned = torch.sqrt if name == "var" else torch.square
        words = (
            "with the deviation for the variance"
            if name == "var"
            else "with the variance for the deviation: no square root"
        )
        kind = "root-omitted" if name == "std" else "square-omitted"
        yield site.variant(kind, words, site.around(turned), 1, "sqrt")
        words = "with the mean not subtracted: E[x^2] for the variance"
        rewrite = over(site, lambda rows: root(rows.square().sum(-1) / (count - correction)))
        yield site.variant("mean-not-subtracted", words, rewrite, 1, "mean")
        words = "with the sum of squares for their mean"
        rewrite = over(site, lambda rows: root(rows.var(-1, correction=0) * count))
        yield site.variant("sum-for-mean", words, rewrite, 1, "/")
        return
    if name != "mean":
        return
    sizes = {
        count - 1,
        count + 1,
        *x.shape,
        x.numel(),
        *(-(-count // block) * block for block in site.facts.blocks()),
    }
    for divisor in sorted(sizes - {count, 0, 1}):
        words = f"with {site.label} divided by {divisor} for {count}"
        rewrite = over(site, lambda rows, d=divisor: rows.sum(-1) / d)  # type: ignore[misc]
        yield site.variant("wrong-divisor", words, rewrite, 2, "/")


def _start_values(site: Site) -> Iterator[Variant]:
    """Yield variants of sums, products and extremes whose accumulator starts at the wrong value."""
    name, starts = site.call.name, [0.0, 1.0, -1.0, *(v for r in site.facts.real[:40] for v in (r, -r))]
    for start in dict.fromkeys(starts):
        words = f"with {site.label} starting at {start:g}"
        change: Rows | None = None
        if name in ("amax", "max"):
            change = lambda result, s=start: result.clamp_min(s)  # noqa: E731
        elif name in ("amin", "min"):
            change = lambda result, s=start: result.clamp_max(s)  # noqa: E731
        elif name in ("sum", "prod") and start in (0.0, 1.0, -1.0) and (name == "sum") != (start == 0.0):
            change = (
                (lambda result, s=start: result + s) if name == "sum" else lambda result, s=start: result * s
            )
        if change is not None:
            yield site.variant(
                "reduction-start-value", words, site.around(change), 1, r"\w+\s*=\s*-?[\d.]+f?\b(?=[;,])"
            )


@rule("max", "min", "argmax", "argmin")
def _indices(site: Site) -> Iterator[Variant]:
    """Yield variants with the index of the other extreme, or of the last of equal elements."""
    given, name = site.given, site.call.name
    if "other" in given or not given["self"].is_floating_point():
        return
    if name.startswith("arg"):
        words = f"with {'argmin' if name == 'argmax' else 'argmax'} for {name}"
        kind = "min-for-max" if name == "argmax" else "max-for-min"
        yield site.variant(kind, words, lambda given: site.changed(self=lambda x: -x)(given), 0, "<|>")
    elif given.get("dim") is not None:

        def last(given: Arguments) -> tuple[Tensor, Tensor]:
            flipped = site.changed(self=lambda x: x.flip(given["dim"]))(given)
            return flipped[0], given["self"].shape[given["dim"]] - 1 - flipped[1]

        yield site.variant("wrong-axis", f"with the last of equal elements in {site.label}", last, 3, "<|>")
