"""Sliding windows as a dimension of their own, and views by strides."""

from typing import Any

from agent.compose.dims import Digit, Dim, Index, is_one, times
from agent.compose.kernel import Kernel
from agent.compose.tracing import Node
from agent.compose.values import Value
from agent.compose.views import at_points, moved


def lower(node: Node, name: str, args: list[Any]) -> Value | None:
    """Return the value of an operator of this kind, or None for any other."""
    if name == "unfold":
        return _unfold(node, *args)
    return _as_strided(node, args) if name == "as_strided" else None


def _unfold(node: Node, source: Value, axis: int, width: Any, step: Any) -> Value:
    axis %= len(source.shape)
    size, points = source.shape[axis], len(source.shape[axis])
    windows, by = node.shapes[0][axis], at_points(step, points)
    is_whole = at_points(width, points) == by and times((windows, by), points) == size

    def place(kernel: Kernel, index: Index) -> Index:
        own = (*index[axis], *index[-1])
        if not is_whole:
            first, inside = kernel.radix.number(index[axis]), kernel.radix.number(index[-1])
            own = (Digit(f"({first} * {_text(kernel, by)} + {inside})", size),)
        return (*index[:axis], () if is_one(size) else own, *index[axis + 1 : -1])

    return moved(source, node.shapes[0], place, "unfold")


def _as_strided(node: Node, args: list[Any]) -> Value:
    """Return a strided view of a contiguous tensor. `Lowering` declines any other."""
    source, shape = args[0], node.shapes[0]
    points = len(shape[0]) if shape else len(source.shape[0])
    strides = [at_points(stride, points) for stride in args[2]]
    begin = at_points(args[3] if len(args) > 3 and args[3] is not None else 0, points)

    def place(kernel: Kernel, index: Index) -> Index:
        steps = zip(index, strides, strict=True)
        terms = [f"{kernel.radix.number(own)} * {_text(kernel, by)}" for own, by in steps if own]
        terms += [_text(kernel, begin)] if any(begin) else []
        total = times(source.shape, points)
        digit = Digit(f"({' + '.join(terms) or '0'})", total)
        return kernel.radix.regrouped(((digit,),), source.shape)

    return moved(source, shape, place, "as_strided")


def _text(kernel: Kernel, size: Dim) -> str:
    return str(size[0]) if len(set(size)) == 1 else kernel.size(size)
