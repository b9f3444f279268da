"""Extremes along one dimension and the first indices that hold them, in one pass over the elements."""

from typing import Any

from agent.compose.declined import Declined
from agent.compose.dims import Index, is_one
from agent.compose.kernel import Kernel
from agent.compose.pointwise import FLOATS, applied
from agent.compose.reductions import along, axes_of, converted_to, count, kept, part_of, reduced, state_of
from agent.compose.tracing import Node
from agent.compose.values import Pointwise, Value, broadcast
from agent.compose.views import reshaped


def lower(node: Node, name: str, args: list[Any]) -> Value | tuple[Value, ...] | None:
    """Return the value or values of an operator of this kind, or None for any other."""
    if name in ("max", "min") and len(args) > 1 and len(node.shapes) == 2:
        best, places = _extreme(args[0], axes_of(args), name)
        if node.users == 1:  # only one of the two results is read
            best = reduced(args[0], axes_of(args), name, name)
        return kept(best, node.shapes[0]), kept(places, node.shapes[1])
    if name in ("argmax", "argmin"):
        source = args[0]
        if len(args) < 2 or args[1] is None:
            source = reshaped(source, (count(source, range(len(source.shape))),))
        return kept(_extreme(source, axes_of([source, *args[1:]]), name[3:])[1], node.shapes[0])
    return None


def _extreme(source: Value, axes: tuple[int, ...], kind: str) -> tuple[Value, Value]:
    """Return the largest or smallest along one dimension, and the first index that holds it."""
    if len(axes) != 1:
        raise Declined("places of extremes over several dimensions are not composed yet")
    [axis] = axes
    if is_one(source.shape[axis]):
        best = reduced(source, axes, kind, kind)
        return best, applied("{0}", [0], best.shape, "int64")
    if source.dtype not in FLOATS or source.dtype == "float64":
        best = reduced(source, axes, kind, kind)
        return best, _first_of(source, best, axis)

    def element(kernel: Kernel, index: Index) -> str:
        one, at = kernel.at(source, index), kernel.radix.number(index[axis])
        return f"Place{{{one}, int({at})}}"

    found = Pointwise(source.shape, "place", "", (source,), element)
    state = state_of(found, axes, f"arg{kind}", "place", f"arg{kind}")
    places = Pointwise(
        state.shape,
        "int64",
        f"arg{kind}",
        (state,),
        lambda kernel, index: f"int64_t({kernel.at(state, index)}.at)",
    )
    return converted_to(part_of(state, "value"), source.dtype), places


def _first_of(source: Value, best: Value, axis: int) -> Value:
    """Return the least index along one dimension that holds the best element, by a second pass."""
    everywhere = along(best, source, (axis,))

    def element(kernel: Kernel, index: Index) -> str:
        one = kernel.at(source, index)
        top = kernel.at(everywhere, broadcast(everywhere, source.shape, index))
        place = kernel.radix.number(index[axis])
        last = kernel.size(source.shape[axis])
        return f"({one} == {top} || {one} != {one} ? int64_t({place}) : int64_t({last}) - 1)"

    places = Pointwise(source.shape, "int64", "", (source, everywhere), element)
    return reduced(places, (axis,), "min", "argmax")
