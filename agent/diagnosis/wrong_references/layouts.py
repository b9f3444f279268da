"""Faults of split and joined dimensions: exchanged parts, heads read as columns, wrong permutations."""

from collections.abc import Iterator
from itertools import combinations, permutations

import torch

from agent.diagnosis.graph import Arguments
from agent.diagnosis.wrong_references.rules import Site, Variant, rule

Tensor = torch.Tensor
_INDEX = r"\[.*\]"
MOST_PARTS = 3
"""Maximum number of parts of which all orders are tried; of more parts only pairs are exchanged."""


@rule("split", "unsafe_split", "split_with_sizes", "unbind", "chunk")
def _parts(site: Site) -> Iterator[Variant]:
    """Yield variants with the parts of a split value in another order, or read interleaved."""
    parts = list(site.call.result)
    if len(parts) < 2 or any(part.shape != parts[0].shape for part in parts):
        return
    count, axis = len(parts), site.given["dim"]
    for order in _orders(count):

        def run(given: Arguments, order: tuple[int, ...] = order) -> list[Tensor]:
            made = list(site.changed()(given))
            return [made[place] for place in order]

        words = f"with the parts of {site.label} in the order {', '.join(map(str, order))}: exchanged"
        yield site.variant("operands-swapped", words, run, 1, _INDEX)
    if site.call.name == "unbind":
        return

    def interleaved(given: Arguments) -> list[Tensor]:
        x = given["self"].movedim(axis, -1)
        return [x[..., place::count].movedim(-1, axis) for place in range(count)]

    words = f"with the parts of {site.label} read interleaved: every {count}. element, not blocks of them"
    yield site.variant("layout-misread", words, interleaved, 1, _INDEX)


def _orders(count: int) -> Iterator[tuple[int, ...]]:
    """Yield every order except the original; of many parts, only exchanges of two."""
    if count <= MOST_PARTS:
        yield from list(permutations(range(count)))[1:]
        return
    for one, other in combinations(range(count), 2):
        order = list(range(count))
        order[one], order[other] = other, one
        yield tuple(order)


@rule("view", "_unsafe_view", "unflatten")
def _divided(site: Site) -> Iterator[Variant]:
    """Yield faults of one dim split in two, or two joined in one, with the two exchanged."""
    x, result = site.given["self"], site.call.result
    if not x.is_floating_point():
        return
    divided = _divided_dim(tuple(x.shape), tuple(result.shape))
    if divided is not None:
        outer, inner = result.shape[divided : divided + 2]

        def other_way(given: Arguments) -> Tensor:
            y: Tensor = given["self"].unflatten(divided, (inner, outer))
            return y.transpose(divided, divided + 1).contiguous()

        words = (
            f"with {outer * inner} elements of dim {divided} read as {inner} times {outer}, not "
            f"{outer} times {inner}: the part (head) is the inner index"
        )
        if outer == inner:
            words = (
                f"with dims {divided} and {divided + 1} (rows and columns of {outer}) exchanged: transposed"
            )
        yield site.variant("layout-misread", words, other_way, 1, _INDEX)
    joined = _divided_dim(tuple(result.shape), tuple(x.shape))
    if joined is not None:

        def turned(given: Arguments) -> Tensor:
            y: Tensor = given["self"].transpose(joined, joined + 1)
            return y.reshape(result.shape)

        words = f"with dims {joined} and {joined + 1} of {tuple(x.shape)} joined the other way round"
        yield site.variant("layout-misread", words, turned, 1, _INDEX)


def _divided_dim(whole: tuple[int, ...], parts: tuple[int, ...]) -> int | None:
    """Return the dim of `whole` that is split into two dims of `parts`, both longer than 1, or None."""
    if len(parts) != len(whole) + 1:
        return None
    for axis in range(len(whole)):
        outer, inner = parts[axis : axis + 2]
        made = (*parts[:axis], outer * inner, *parts[axis + 2 :])
        if made == whole and outer > 1 and inner > 1:
            return axis
    return None


@rule("permute", "transpose")
def _other_orders(site: Site) -> Iterator[Variant]:
    """Yield variants with another permutation of the dims that has the same result shape."""
    x, result = site.given["self"], site.call.result
    if not x.is_floating_point() or not 2 < x.dim() <= 4:
        return
    own = _order(site)
    for order in permutations(range(x.dim())):
        shape = tuple(x.shape[axis] for axis in order)
        if order != own and shape == tuple(result.shape) and _moves(order, shape, own):
            words = (
                f"with {site.label} to the order {', '.join(map(str, order))}, not {', '.join(map(str, own))}"
            )
            rewrite = lambda given, o=order: given["self"].permute(o)  # noqa: E731
            yield site.variant("layout-misread", words, rewrite, 2, _INDEX)


def _order(site: Site) -> tuple[int, ...]:
    x = site.given["self"]
    if site.call.name == "permute":
        return tuple(axis % x.dim() for axis in site.given["dims"])
    order = list(range(x.dim()))
    one, other = (site.given[name] % x.dim() for name in ("dim0", "dim1"))
    order[one], order[other] = order[other], order[one]
    return tuple(order)


def _moves(order: tuple[int, ...], shape: tuple[int, ...], own: tuple[int, ...]) -> bool:
    """Return True if the two orders put a dim larger than 1 in different places."""
    return any(a != b and size > 1 for a, b, size in zip(order, own, shape, strict=True))
