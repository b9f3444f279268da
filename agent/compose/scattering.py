"""Operators that write elements to places which another tensor holds, or which a condition chooses."""

from collections.abc import Callable
from typing import Any

from agent.compose.declined import Declined
from agent.compose.dims import Digit, Dim, Index, is_one
from agent.compose.kernel import Kernel
from agent.compose.lookups import kept_inside
from agent.compose.pointwise import applied
from agent.compose.reductions import converted_to
from agent.compose.tracing import Node
from agent.compose.values import Scatter, Value, broadcast
from agent.compose.views import expanded, leading, moved

_ADDED = ("float32", "float64", "int32", "int64")
"""Dtypes that threads can add to in memory at the same time."""


def lower(node: Node, name: str, args: list[Any], kwargs: dict[str, Any]) -> Value | None:
    """Return the value of an operator of this kind, or None for any other."""
    made = _WRITES.get(name)
    return made(node, args, kwargs) if made else None


def _scatter(node: Node, args: list[Any], kwargs: dict[str, Any]) -> Value:
    base, axis, places, source = args[:4]
    if kwargs.get("reduce") or len(args) > 4:
        raise Declined("a scatter that reduces is not composed yet")
    axis %= max(len(base.shape), 1)
    size = base.shape[axis]
    source = _at(source, places.shape, base.dtype)

    def place(kernel: Kernel, index: Index) -> Index:
        own = (
            ()
            if is_one(size)
            else (Digit(kept_inside(kernel, kernel.at(places, index), places, size), size),)
        )
        return (*index[:axis], own, *index[axis + 1 :])

    return _scattered(base, source, (places,), place, "scatter_add" in node.op)


def _index_put(node: Node, args: list[Any], kwargs: dict[str, Any]) -> Value:
    base, given, source = args[:3]
    is_added = bool(args[3]) if len(args) > 3 else bool(kwargs.get("accumulate"))
    places = [(axis, place) for axis, place in enumerate(given) if isinstance(place, Value)]
    if len(places) == 1 and places[0][1].dtype == "bool":
        return _masked(base, places[0], source, is_added)
    axes = [axis for axis, _ in places]
    if not axes or axes != list(range(axes[0], axes[-1] + 1)) or any(p.dtype == "bool" for _, p in places):
        raise Declined("writing at these indices is not composed yet")
    inner = _together([place.shape for _, place in places])
    shape = (*base.shape[: axes[0]], *inner, *base.shape[axes[-1] + 1 :])
    rank, first = len(inner), axes[0]

    def place(kernel: Kernel, index: Index) -> Index:
        inside = index[first : first + rank]
        found = []
        for axis, one in places:
            at = kernel.at(one, broadcast(one, inner, inside))
            size = base.shape[axis]
            text = kernel.body.temp(f"({at} < 0 ? {at} + {kernel.size(size)} : {at})", one.dtype)
            found.append(() if is_one(size) else (Digit(kept_inside(kernel, text, one, size), size),))
        return (*index[:first], *found, *index[first + rank :])

    values = tuple(value for _, value in places)
    return _scattered(base, _at(source, shape, base.dtype), values, place, is_added)


def _masked(base: Value, place: tuple[int, Value], source: Value, is_added: bool) -> Value:
    """Return the base with one number at all places where a mask holds."""
    axis, mask = place
    if axis or not all(is_one(size) for size in source.shape):
        raise Declined("writing several values at a mask is not composed yet")
    one = (1,) * len(base.shape[0])
    over = moved(
        mask, (*mask.shape, *(one,) * (len(base.shape) - len(mask.shape))),
        lambda kernel, index: index[: len(mask.shape)],
    )  # fmt: skip
    text = "({1} ? {0} + {2} : {0})" if is_added else "({1} ? {2} : {0})"
    number = converted_to(source, base.dtype)
    return applied(text, [base, over, number], base.shape, base.dtype, "masked")


def _together(shapes: list[tuple[Dim, ...]]) -> tuple[Dim, ...]:
    """Return the shape that these broadcast to."""
    rank = max(map(len, shapes))
    result: list[Dim] = []
    for axis in range(-rank, 0):
        sizes = [shape[axis] for shape in shapes if len(shape) >= -axis]
        result.append(next((size for size in sizes if not is_one(size)), sizes[0]))
    return tuple(result)


def _at(source: Any, shape: tuple[Dim, ...], dtype: str) -> Value:
    """Return what is written, a number or a tensor, in the shape and the dtype of the written elements."""
    if not isinstance(source, Value):
        return applied("{0}", [source], shape, dtype)
    source = converted_to(source, dtype)
    if len(source.shape) == len(shape) and source.shape != shape and not any(map(is_one, source.shape)):
        return leading(source, shape)  # the source may be larger
    return expanded(source, shape)


def _scattered(
    base: Value, source: Value, places: tuple[Value, ...], place: Callable[[Kernel, Index], Index],
    is_added: bool,
) -> Value:  # fmt: skip
    dtype = base.dtype
    if is_added and dtype in ("float16", "bfloat16"):
        base, source = converted_to(base, "float32"), converted_to(source, "float32")
    if is_added and base.dtype not in _ADDED:
        raise Declined(f"adding numbers of {dtype} at indices is not composed yet")
    about = "scatter_add" if is_added else "scatter"
    made = Scatter(base.shape, base.dtype, about, base, source, places, place, is_added)
    return converted_to(made, dtype)


_WRITES: dict[str, Callable[[Node, list[Any], dict[str, Any]], Value]] = {
    "scatter": _scatter, "scatter_add": _scatter, "index_put": _index_put, "_unsafe_index_put": _index_put,
}  # fmt: skip
