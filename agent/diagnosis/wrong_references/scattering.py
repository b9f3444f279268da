"""Faults of scatter operators: initial values, several values for one index, and wrong indices."""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from agent.diagnosis.graph import Arguments, Rewrite
from agent.diagnosis.wrong_references.lanes import kept
from agent.diagnosis.wrong_references.rules import Site, Variant, rule

Tensor = torch.Tensor
_INDEX = r"\[.*\]"
_ATOMIC = r"atomic|\+="
_WRITES = ("scatter_add", "scatter_reduce", "scatter", "index_add", "index_copy", "index_put", "index_fill")


@rule(*_WRITES)
def _before(site: Site) -> Iterator[Variant]:
    """Yield wrong initial values of the result."""
    name, start = site.label, site.given["self"]
    if bool((start != 0).any()):
        zeros = site.changed(self=torch.zeros_like)
        words = f"with {name} starting from zeros: what was there before is lost"
        yield site.variant("base-ignored", words, zeros, 0, _ATOMIC)
        if site.call.name in ("scatter_add", "index_add"):
            twice = site.changed(self=lambda t: 2 * t)
            yield site.variant("operator-doubled", f"with what was there before {name} added twice", twice, 2)
    if site.call.name == "scatter_reduce":
        other = not site.given["include_self"]
        words = f"with what was there before {name} {'counted in' if other else 'left out'}"
        change = site.changed(include_self=other)
        yield site.variant("base-ignored", words, change, 0, _ATOMIC)
        for value in (0.0, 1.0, -1.0):
            started = site.changed(self=lambda t, v=value: torch.full_like(t, v), include_self=True)
            words = f"with {name} starting at {value:g}"
            yield site.variant("reduction-start-value", words, started, 1, _ATOMIC)


@rule("scatter_add")
def _of_all_samples(site: Site) -> Iterator[Variant]:
    """Yield the variant with sums over all samples, where each sample has its own sums."""
    value, dim = site.call.value, site.given["dim"]
    if value is None or value.dim() < 2 or dim % value.dim() == 0 or value.shape[0] < 2:
        return
    words = f"with the sums of all samples together in {site.label}: one table for the whole batch"
    shared = site.around(lambda t: t.sum(0, keepdim=True).expand_as(t).clone())
    yield site.variant("statistics-over-batch", words, shared, 2, _INDEX)


@rule("scatter_add", "scatter_reduce", "index_add", "index_put")
def _several(site: Site) -> Iterator[Variant]:
    """Yield faults of combining several values for one index."""
    accumulates = site.given.get("accumulate", site.call.name != "index_put")
    forms: tuple[tuple[str, str, str, bool], ...] = (
        (
            "scatter-overwrites",
            "the last value for each place alone, overwritten and not added up",
            "last",
            False,
        ),
        ("scatter-overwrites", "the first value for each place alone, the others being lost", "first", False),
        ("wrong-activation", "the largest value for each place", "amax", True),
        ("wrong-activation", "the smallest value for each place", "amin", True),
        ("sum-for-mean", "the sum for each place", "sum", True),
        ("mean-for-sum", "the mean for each place", "mean", True),
        ("wrong-activation", "the product for each place", "prod", True),
    )
    own = site.given.get("reduce", "sum" if accumulates else "last")
    source = next((key for key in ("src", "source", "values") if key in site.given), "")
    counts = bool((site.given[source] == 1).all())
    for kind, words, how, _ in forms:
        if how != own:
            for kept in (True, False):
                spoken = f"with {words} in {site.label}" + ("" if kept else ", without what was there before")
                yield site.variant(kind, spoken, _placed(site, how, kept), 2 + counts - kept, _ATOMIC)
    if site.given.get("alpha", 1) != 1:
        words = f"with the factor alpha = {site.given['alpha']:g} of {site.label} left out"
        yield site.variant("scale-missing", words, site.changed(alpha=1), 0, r"\*")
        both = lambda given: site.changed(self=given["self"] * given["alpha"])(given)  # noqa: E731
        yield site.variant("activation-order", f"with alpha applied to all of {site.label}", both, 1, r"\*")
    if not counts:
        for which in ("last", "first"):
            words = f"with the {which} element of each place (segment) left out of {site.label}"
            ends = _without_ends(site, which == "last")
            yield site.variant("last-element-left-out", words, ends, 2, "for|<")
        for kind, words, change in _SOURCES:
            yield site.variant(kind, words.format(site.label), site.changed(**{source: change}), 1, _INDEX)


_SOURCES: tuple[tuple[str, str, Callable[[Tensor], Tensor]], ...] = (
    ("sign-error", "with the values of {} subtracted", lambda t: -t),
    ("weight-ignored", "with one for every value of {}: the number of them", torch.ones_like),
    ("index-ignored", "with the first value of {} for all", lambda t: t[:1].expand_as(t) if t.dim() else t),
    ("index-off-by-one", "with the values of {} read one ahead", lambda t: t.roll(-1, 0) if t.dim() else t),
)


@rule("scatter_add", "index_add", "index_put", "bincount", late=True)
def _lost(site: Site) -> Iterator[Variant]:
    """Yield variants whose sums leave out some values."""
    key = next((key for key in ("src", "source", "values", "weights") if site.given.get(key) is not None), "")
    if not key or not site.given.get("accumulate", True) or not isinstance(site.given[key], Tensor):
        return
    axis = site.given.get("dim", 0)
    values = site.given[key]
    for subset in kept(values.shape[axis] if values.dim() else 1, site.facts):
        shape = [-1 if place == axis % max(values.dim(), 1) else 1 for place in range(values.dim())]
        mask = subset.mask.to(values.device).reshape(shape)
        words = f"with the values of {site.label} taken {subset.words}"
        rewrite = site.changed(**{key: lambda t, m=mask: t * m})
        yield site.variant(subset.kind, words, rewrite, 4 + subset.rank, "for|<")


def _placed(site: Site, how: str, kept: bool) -> Rewrite:
    """Return the operator with values of one index combined by `how`; `kept` keeps the initial values."""

    def run(given: Arguments) -> Any:
        start, dim, index, values = _as_scatter(site, given)
        start = start if kept else torch.zeros_like(start)
        if how in ("last", "first"):
            return _one_each(start, dim, index, values, how == "last")
        result = start.scatter_reduce(dim, index, values, how, include_self=kept and how != "mean")
        return result.reshape(given["self"].shape)

    return run


def _without_ends(site: Site, last: bool) -> Rewrite:
    """Return sums without the last, or the first, value of each index."""

    def run(given: Arguments) -> Tensor:
        start, dim, index, values = _as_scatter(site, given)
        order = torch.arange(index.shape[dim], device=index.device)
        order = order.reshape([-1 if axis == dim % index.dim() else 1 for axis in range(index.dim())])
        order = order.expand_as(index)
        reduce = "amax" if last else "amin"
        end = torch.zeros(start.shape, dtype=order.dtype).scatter_reduce(
            dim, index, order, reduce, include_self=False
        )
        kept = values.masked_fill(end.gather(dim, index) == order, 0.0)
        return start.scatter_add(dim, index, kept).reshape(given["self"].shape)

    return run


def _one_each(start: Tensor, dim: int, index: Tensor, values: Tensor, last: bool) -> Tensor:
    """Write the values in turn along `dim`, so that the last, or the first, stays."""
    result, steps = start.clone(), range(index.shape[dim])
    for step in steps if last else reversed(steps):
        part = index.narrow(dim, step, 1), values.narrow(dim, step, 1)
        result = result.scatter(dim, *part)
    return result


def _as_scatter(site: Site, given: Arguments) -> tuple[Tensor, int, Tensor, Tensor]:
    """Return the initial tensor, the dim, and index and values of equal shape."""
    start = given["self"]
    if site.call.name in ("scatter_add", "scatter_reduce"):
        index: Tensor = given["index"]
        part = given["src"][tuple(slice(0, size) for size in index.shape)]
        return start, given["dim"], index, part
    if site.call.name == "index_add":
        dim = given["dim"] % start.dim()
        values = given["source"] * given["alpha"]
        shape = [-1 if axis == dim else 1 for axis in range(start.dim())]
        return start, dim, given["index"].reshape(shape).expand_as(values), values
    (index,) = given["indices"]
    values = given["values"].expand(*index.shape, *start.shape[1:])
    flat = index.reshape(-1, *[1] * (start.dim() - 1)).expand(-1, *start.shape[1:])
    return start, 0, flat, values.reshape(flat.shape)


@rule(*_WRITES)
def _places(site: Site) -> Iterator[Variant]:
    """Yield wrong indices for each index tensor."""
    key = "indices" if "indices" in site.given else "index"
    several = site.given[key] if isinstance(site.given[key], (list, tuple)) else [site.given[key]]
    for number, index in enumerate(several):
        if isinstance(index, Tensor) and index.dtype is not torch.bool and site.given["self"].dim():
            yield from _other_places(site, key, index, number if len(several) > 1 else None)


def _other_places(site: Site, key: str, index: Tensor, number: int | None) -> Iterator[Variant]:
    """Yield wrong indices; `number` is the position among several index tensors, one for each dim."""
    dim = site.given.get("dim", number or 0)
    size, name = site.given["self"].shape[dim], site.label
    name += f" along dim {number}" if number is not None else ""

    def at(change: Callable[[Tensor], Tensor]) -> Rewrite:
        def other(old: Any) -> Any:
            if not isinstance(old, (list, tuple)):
                return change(old)
            return [change(one) if place == (number or 0) else one for place, one in enumerate(old)]

        return site.changed(**{key: other})

    if index.dim():
        words = f"with {name} at the first of the indices for all: the index is ignored"
        same = at(lambda i: i[:1].expand_as(i))
        yield site.variant("index-ignored", words, same, 1, _INDEX)

    for step in (1, -1):
        words = f"with {name} at the place {'after' if step > 0 else 'before'}: the index is off by one"
        yield site.variant("index-off-by-one", words, at(lambda i, s=step: (i + s) % size), 0, _INDEX)  # type: ignore[misc]
        bounded = at(lambda i, s=step: (i + s).clamp(0, size - 1))  # type: ignore[misc]
        yield site.variant("index-off-by-one", words + ", bounded", bounded, 1, _INDEX)
    counted = at(lambda i: _along(i, 0 if number is not None else dim) % size)
    words = f"with {name} at its own position, not at the index: the index is ignored"
    yield site.variant("index-ignored", words, counted, 0, _INDEX)
    words = f"with {name} at place 0 for every index"
    yield site.variant("index-ignored", words, at(torch.zeros_like), 0, _INDEX)
    yield site.variant("index-ignored", f"with {name} at places from the end", at(lambda i: size - 1 - i), 2)
    if index.dim() > 1:
        for axis in range(index.dim()):
            same = at(lambda i, a=axis: i.narrow(a, 0, 1).expand_as(i))  # type: ignore[misc]
            words = f"with the index of {name} at 0 of dim {axis} for all"
            yield site.variant("index-ignored", words, same, 1, _INDEX)


def _along(index: Tensor, dim: int) -> Tensor:
    shape = [-1 if axis == dim % index.dim() else 1 for axis in range(index.dim())]
    return torch.arange(index.shape[dim], device=index.device).reshape(shape).expand_as(index)


@rule("scatter_add", "scatter_reduce", "scatter", "index_add", "index_copy")
def _axes(site: Site) -> Iterator[Variant]:
    start, dim = site.given["self"], site.given["dim"]
    for axis in range(start.dim()):
        if axis != dim % start.dim():
            words = f"with {site.label} along dim {axis}; the reference's is along {dim}"
            yield site.variant("wrong-axis", words, site.changed(dim=axis), 1, _INDEX)


@rule("bincount", "histc")
def _counted(site: Site) -> Iterator[Variant]:
    if site.given.get("weights") is not None:
        words = f"with the weights of {site.label} ignored: occurrences are counted"
        yield site.variant("weight-ignored", words, site.changed(weights=None), 0, _ATOMIC)
    for step, words in ((1, "after"), (-1, "before")):
        shifted = site.around(lambda counts, s=step: counts.roll(s))  # type: ignore[misc]
        words = f"with each element counted in the bin {words} its own: off by one"
        yield site.variant("index-off-by-one", words, shifted, 0, _INDEX)
    once = site.around(lambda counts: (counts != 0).to(counts.dtype))
    words = f"with one for every bin that {site.label} meets: not counted, written"
    yield site.variant("scatter-overwrites", words, once, 1, _ATOMIC)


@rule("gather", "take_along_dim", "index_select")
def _gathered(site: Site) -> Iterator[Variant]:
    x, dim = site.given["self"], site.given["dim"]
    for axis in range(x.dim()):
        if axis != dim % max(x.dim(), 1):
            words = f"with {site.label} along dim {axis}; the reference's is along {dim}"
            yield site.variant("wrong-axis", words, site.changed(dim=axis), 1, _INDEX)
