"""Faults of sort, top-k and rank selection: order, dimension, indices, and tiles that are not merged."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from agent.diagnosis.graph import Arguments, Rewrite, invoke
from agent.diagnosis.wrong_references.lanes import kept
from agent.diagnosis.wrong_references.rules import Site, Variant, rule

Tensor = torch.Tensor
Order = Callable[[Tensor], Tensor]
"""Function of rows that returns the indices of their elements, along the last dim, in sorted order."""
_COMPARE = "<|>"
_PLACE = r"idx|index|\[.*\] ="


@rule("sort", "topk")
def _sorted(site: Site) -> Iterator[Variant]:
    x = site.given["self"]
    if x.dim() == 0:
        return
    name, descending = site.label, _descending(site)
    length = x.shape[site.given["dim"]]
    count = site.call.result[0].shape[site.given["dim"]]
    largest = site.given.get("largest", False)

    def own(r: Tensor) -> Tensor:
        return _ordered(r, descending)

    def other(r: Tensor) -> Tensor:
        return _ordered(r, not descending)

    turned = "ascending" if descending else "descending"
    if site.call.name == "sort":
        yield _by(site, "sort-order", f"with {name} in {turned} order", other, 0, _COMPARE)
    else:
        kind = "sort-order"
        words = f"with the {'smallest' if largest else 'largest'} {count} for the {name}'s"
        yield _by(site, kind, words, other, 0, _COMPARE)
        words = f"with the {count} of {name} in {turned} order"
        yield _by(site, "sort-order", words, lambda r: own(r)[..., :count].flip(-1), 0, _COMPARE)
        words = f"with the {count} of {name} in the order of their places, not of their values"
        yield _by(site, "sort-order", words, lambda r: own(r)[..., :count].sort(-1).values, 1, _COMPARE)
        words = f"with the first of {name} left out: off by one"
        yield _by(site, "index-off-by-one", words, lambda r: own(r).roll(-1, -1), 1, _COMPARE)
        words = f"with the first {count} elements: {name} chooses nothing"
        yield _by(site, "not-sorted", words, _places, 1, _COMPARE)
    for spoken, key in (("absolute values", torch.abs), ("values truncated to integers", torch.trunc)):
        if x.is_floating_point():
            ordered = lambda r, k=key: _ordered(k(r), descending)  # noqa: E731
            kind = "truncated-to-integer" if key is torch.trunc else "sort-order"
            yield _by(site, kind, f"with {name} by {spoken}", ordered, 1, "abs|int")
    words = f"with the last of equal elements first in {name}"
    yield _by(site, "tie-order", words, _last_first(descending), 2, "<=|>=")
    for place, words in ((length - 1, "last"), (0, "first")):
        left = lambda r, p=place: _without(own(r), p)  # noqa: E731
        words = f"with the {words} element left out of {name}"
        yield _by(site, "last-element-left-out", words, left, 2, "<|for")


def _ordered(r: Tensor, descending: bool) -> Tensor:
    """Return the indices of a stable sort along the last dim."""
    return torch.sort(r, stable=True, dim=-1, descending=descending).indices


def _last_first(descending: bool) -> Order:
    def order(r: Tensor) -> Tensor:
        return r.shape[-1] - 1 - _ordered(r.flip(-1), descending)

    return order


def _without(places: Tensor, left_out: int) -> Tensor:
    """Return the order with the first or last element left out of the sort: it stays where it is."""
    key = torch.arange(places.shape[-1], device=places.device).expand_as(places).clone()
    key = torch.where(places == left_out, key.shape[-1] if left_out else -1, key)
    return places.gather(-1, _ordered(key, False))


def _places(r: Tensor) -> Tensor:
    return torch.arange(r.shape[-1], device=r.device).expand_as(r)


def _descending(site: Site) -> bool:
    return bool(site.given.get("largest", site.given.get("descending", False)))


def _by(site: Site, kind: str, words: str, order: Order, rank: int, tokens: str) -> Variant:
    """Return a variant whose elements are chosen by `order`, as many as the operator returns."""

    def run(given: Arguments) -> tuple[Tensor, Tensor]:
        x, dim = given["self"], given["dim"]
        count = site.call.result[0].shape[dim]
        places = order(x.movedim(dim, -1))[..., :count].movedim(-1, dim)
        return x.gather(dim, places), places

    return site.variant(kind, words, run, rank, tokens)


@rule("sort", "topk")
def _indices(site: Site) -> Iterator[Variant]:
    """Yield wrong indices: ranks, flat indices, and indices within a tile."""
    dim, length = site.given["dim"], site.given["self"].shape[site.given["dim"]]

    def indices(change: Callable[[Tensor], Tensor]) -> Rewrite:
        def run(given: Arguments) -> Any:
            values, places = site.changed()(given)
            return values, change(places)

        return run

    name = site.label
    if site.call.name == "sort":
        words = f"with each element's rank for the indices of {name}: the inverse permutation"
        yield site.variant("inverse-permutation", words, indices(lambda p: p.argsort(dim)), 1, _PLACE)
    for step in (1, -1):
        words = f"with {step:+d} on the indices of {name}: off by one"
        yield site.variant("index-off-by-one", words, indices(lambda p, s=step: p + s), 1, _PLACE)  # type: ignore[misc]
    x = site.given["self"]
    inner = x[0].numel() if x.dim() > 1 and dim % x.dim() == x.dim() - 1 else 0

    def flat(p: Tensor) -> Tensor:
        rows = torch.arange(p.numel() // p.shape[-1], device=p.device).reshape(*p.shape[:-1], 1)
        return torch.as_tensor(p + rows * length)

    if inner:
        words = f"with flat indices into all rows for those within a row of {name}"
        yield site.variant("wrong-index-base", words, indices(flat), 2, _PLACE)
    for block in [size for size in site.facts.blocks() if 1 < size < length]:
        words = f"with the indices of {name} counted within a tile of {block}"
        yield site.variant("wrong-index-base", words, indices(lambda p, b=block: p % b), 2, _PLACE)  # type: ignore[misc]


@rule("sort", "topk")
def _along(site: Site) -> Iterator[Variant]:
    x, dim = site.given["self"], site.given["dim"]
    for axis in range(x.dim()):
        if axis != dim % x.dim() and x.shape[axis] > 1:
            words = f"with {site.label} along dim {axis}; the reference's is along {dim}"
            yield site.variant("wrong-axis", words, _along_other(site, axis), 1, "for")


def _along_other(site: Site, axis: int) -> Rewrite:
    """Return the operator along another axis, reshaped to the recorded shape if the shapes differ."""

    def run(given: Arguments) -> Any:
        made = invoke(site.call.func, given | {"dim": axis})
        wanted = site.call.result[0].shape
        return made if made[0].shape == wanted else tuple(part.reshape(wanted) for part in made)

    return run


@rule("sort", "topk", late=True)
def _parts(site: Site) -> Iterator[Variant]:
    """Yield variants with tiles that are sorted separately, or elements that are never read."""
    length, descending = site.given["self"].shape[site.given["dim"]], _descending(site)
    for block in sorted({b for b in (*site.facts.blocks(), *site.facts.whole) if 1 < b < length}):

        def tiles(r: Tensor, b: int = block) -> Tensor:
            parts = torch.split(r, b, -1)
            orders = [_ordered(part, descending) + k * b for k, part in enumerate(parts)]
            return torch.cat(orders, -1)

        def first(r: Tensor, b: int = block) -> Tensor:
            return torch.cat([_ordered(r[..., :b], descending), _places(r)[..., b:]], -1)

        if site.call.name == "sort":
            words = f"with every {block} elements sorted by themselves: the tiles (blocks) are never merged"
            yield _by(site, "not-sorted", words, tiles, 4, "for|<")
        words = f"with the first {block} of {length} elements alone in {site.label}"
        yield _by(site, "lost-last-block", words, first, 4, "for|<")


@rule("topk", late=True)
def _lost(site: Site) -> Iterator[Variant]:
    """Yield variants whose selection never reads some elements."""
    x, dim, largest = site.given["self"], site.given["dim"], site.given["largest"]
    if not x.is_floating_point() or x.dim() == 0:
        return
    for subset in kept(x.shape[dim], site.facts):
        mask = subset.mask.to(x.device)

        def seen(r: Tensor, m: Tensor = mask) -> Tensor:
            return _ordered(r.masked_fill(~m, -math.inf if largest else math.inf), largest)

        words = f"with {site.label} taken {subset.words}"
        yield _by(site, subset.kind, words, seen, 5 + subset.rank, "for|<")


@rule("kthvalue", "median", "nanmedian")
def _ranked(site: Site) -> Iterator[Variant]:
    """Yield variants with the element of another rank, the mean, or the element of the unsorted row."""
    x, dim = site.given["self"], site.given.get("dim")
    if x.dim() == 0:
        return
    length = x.numel() if dim is None else x.shape[dim]
    k = site.given["k"] if site.call.name == "kthvalue" else (length + 1) // 2
    others = {
        k - 1: "the element before",
        k + 1: "the element after",
        length + 1 - k: "the rank from the end",
    }
    for rank, words in others.items():
        if rank != k and 1 <= rank <= length:
            spoken = f"with {words} of {site.label}: number {rank} in order, not {k}"
            other = _of_rank(site, lambda r, k=rank: r.kthvalue(k, -1))  # type: ignore[misc]
            yield site.variant("wrong-rank", spoken, other, 0, "/|k")
    if site.call.name == "median" and length % 2 == 0:
        mean = _of_rank(site, lambda r: ((r.kthvalue(k)[0] + r.kthvalue(k + 1)[0]) / 2, r.kthvalue(k)[1]))
        words = f"with the mean of the two middle elements for {site.label}, which is the lower one"
        yield site.variant("wrong-rank", words, mean, 0, "/")
    if site.call.name == "median":
        mean = _of_rank(site, lambda r: (r.mean(-1), r.kthvalue(k)[1]))
        yield site.variant("wrong-activation", f"with the mean for {site.label}", mean, 1, "/")
    places = _of_rank(site, lambda r: (r[..., k - 1], r.kthvalue(k)[1]))
    yield site.variant("operator-missing", f"with element {k - 1} as it stands: nothing is sorted", places, 1)


def _of_rank(site: Site, choose: Callable[[Tensor], tuple[Tensor, Tensor]]) -> Rewrite:
    def run(given: Arguments) -> Any:
        dim = given.get("dim")
        if dim is None:
            return choose(given["self"].reshape(-1))[0]
        made = tuple(choose(given["self"].movedim(dim, -1)))
        return tuple(part.unsqueeze(dim) for part in made) if given.get("keepdim") else made

    return run


@rule("searchsorted", "bucketize")
def _searched(site: Site) -> Iterator[Variant]:
    """Yield variants of a search that return the other side of equal bounds, or are off by one."""
    right = bool(site.given["right"]) or site.given.get("side") == "right"
    changes: dict[str, Any] = {"right": not right}
    if "side" in site.given:
        changes["side"] = None
    words = f"with the {'left' if right else 'right'} side of equal bounds in {site.label}"
    yield site.variant("search-side", words, site.changed(**changes), 0, "<|>")
    for step in (1, -1):
        words = f"with {step:+d} on the result of {site.label}: off by one"
        yield site.variant("index-off-by-one", words, site.around(lambda p, s=step: p + s), 0, "<|>")  # type: ignore[misc]
