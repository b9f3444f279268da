"""Operators that read elements at indices which another tensor holds."""

from collections.abc import Callable
from typing import Any

from agent.compose.body import C_TYPES
from agent.compose.declined import Declined
from agent.compose.dims import Digit, Dim, Index, is_one
from agent.compose.kernel import Kernel
from agent.compose.tracing import Node
from agent.compose.values import Buffer, Pointwise, Value, View, broadcast


def lower(node: Node, name: str, args: list[Any]) -> Value | None:
    """Return the value of an operator of this kind, or None for any other."""
    made = _LOOKUPS.get(name)
    return made(node, args) if made else None


def kept_inside(kernel: Kernel, text: str, place: Value, size: Dim) -> str:
    """Return an index as C++. One that is computed stays within the dimension, whatever memory holds.

    An index that is an input or a view of one is in range in every call, or torch raises as well.
    """
    source = place
    while isinstance(source, View):
        source = source.operands[0]
    if isinstance(source, Buffer):
        return text
    last = f"{C_TYPES[place.dtype]}({kernel.size(size)} - 1)"
    one = kernel.body.temp(text, place.dtype)
    return kernel.body.temp(f"({one} < 0 ? 0 : {one} > {last} ? {last} : {one})", place.dtype)


def _embedding(node: Node, args: list[Any]) -> Value:
    table, places = args[0], args[1]
    rank = len(places.shape)

    def element(kernel: Kernel, index: Index) -> str:
        size = table.shape[0]
        at = kept_inside(kernel, kernel.at(places, index[:rank]), places, size)
        return kernel.at(table, (() if is_one(size) else (Digit(at, size),), *index[rank:]))

    return Pointwise(node.shapes[0], node.dtypes[0], "embedding", (table, places), element)


def _gather(node: Node, args: list[Any]) -> Value:
    source, axis, places = args[0], args[1] % max(len(args[0].shape), 1), args[2]

    def element(kernel: Kernel, index: Index) -> str:
        size = source.shape[axis]
        own = (
            ()
            if is_one(size)
            else (Digit(kept_inside(kernel, kernel.at(places, index), places, size), size),)
        )
        return kernel.at(source, (*index[:axis], own, *index[axis + 1 :]))

    return Pointwise(node.shapes[0], node.dtypes[0], "gather", (source, places), element)


def _index_select(node: Node, args: list[Any]) -> Value:
    source, axis, places = args[0], args[1] % len(args[0].shape), args[2]

    def element(kernel: Kernel, index: Index) -> str:
        size = source.shape[axis]
        own = (
            ()
            if is_one(size)
            else (Digit(kept_inside(kernel, kernel.at(places, (index[axis],)), places, size), size),)
        )
        return kernel.at(source, (*index[:axis], own, *index[axis + 1 :]))

    return Pointwise(node.shapes[0], node.dtypes[0], "index_select", (source, places), element)


def _index(node: Node, args: list[Any]) -> Value:
    source, given = args
    places = [(axis, place) for axis, place in enumerate(given) if isinstance(place, Value)]
    axes = [axis for axis, _ in places]
    if not axes or axes != list(range(axes[0], axes[-1] + 1)) or any(p.dtype == "bool" for _, p in places):
        raise Declined("indexing with these tensors is not composed yet")
    rank = max(len(place.shape) for _, place in places)
    at_axis = axes[0]
    shape = node.shapes[0]
    middle = shape[at_axis : at_axis + rank]

    def element(kernel: Kernel, index: Index) -> str:
        inside = index[at_axis : at_axis + rank]
        found = []
        for axis, place in places:
            one = kernel.at(place, broadcast(place, middle, inside))
            size = source.shape[axis]
            text = kernel.body.temp(f"({one} < 0 ? {one} + {kernel.size(size)} : {one})", place.dtype)
            found.append(() if is_one(size) else (Digit(kept_inside(kernel, text, place, size), size),))
        return kernel.at(source, (*index[:at_axis], *found, *index[at_axis + rank :]))

    return Pointwise(shape, node.dtypes[0], "index", (source, *(p for _, p in places)), element)


_LOOKUPS: dict[str, Callable[[Node, list[Any]], Value]] = {
    "embedding": _embedding, "gather": _gather, "index": _index, "index_select": _index_select,
}  # fmt: skip
