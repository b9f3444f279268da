"""Sorting along a dimension: each element is put at its rank, the number of elements that come before it."""

from typing import Any

from agent.compose.declined import Declined
from agent.compose.dims import Digit, Dim, Index, is_one
from agent.compose.kernel import Kernel
from agent.compose.pointwise import FLOATS, applied
from agent.compose.reductions import reduced
from agent.compose.tracing import Node, Varying
from agent.compose.values import Pointwise, Scatter, Value
from agent.compose.views import leading, moved, permuted

LONGEST = 4096
"""Maximum number of elements that are sorted. The work grows with its square."""


def lower(node: Node, name: str, args: list[Any], kwargs: dict[str, Any]) -> tuple[Value, ...] | None:
    """Return the values and the indices of a sort, or None for any other operator."""
    settings = list(args[1:])
    if name == "topk":
        count, *settings = settings
        if isinstance(count, Varying):
            raise Declined("topk with a number that follows the sizes is not composed yet")
        axis, largest = [*settings, *(-1, True)[len(settings) :]][:2]
        return _sorted(args[0], kwargs.get("dim", axis), kwargs.get("largest", largest), node)
    if name == "sort":
        if ".stable" in node.op and "stable" not in kwargs:
            settings = settings[1:]
        axis, descending = [*settings, *(-1, False)[len(settings) :]][:2]
        return _sorted(args[0], kwargs.get("dim", axis), kwargs.get("descending", descending), node)
    return None


def _sorted(source: Value, axis: int, descending: bool, node: Node) -> tuple[Value, Value]:
    if not source.shape:
        return source, applied("{0}", [0], (), "int64")
    last = len(source.shape) - 1
    axis %= last + 1
    order = [*(at for at in range(last + 1) if at != axis), axis]
    back = [order.index(at) for at in range(last + 1)]
    rows = permuted(source, order)
    size, shape = rows.shape[-1], tuple(node.shapes[0][at] for at in order)
    if size[0] > LONGEST:
        raise Declined(f"sorting {size[0]} elements is not composed yet")
    ranks = _ranks(rows, descending)
    found = []
    for value in (rows, _places(rows.shape)):
        base = applied("{0}", [0], rows.shape, value.dtype)

        def place(kernel: Kernel, index: Index) -> Index:
            own = () if is_one(size) else (Digit(kernel.at(ranks, index), size),)
            return (*index[:-1], own)

        whole = Scatter(rows.shape, value.dtype, "sorted", base, value, (ranks,), place)
        first = whole if shape == rows.shape else leading(whole, shape)
        found.append(permuted(first, back))
    return found[0], found[1]


def _ranks(rows: Value, descending: bool) -> Value:
    """Return the rank of each element in its row. Equal ones keep their order, and NaN is the largest."""
    size = rows.shape[-1]
    shape = (*rows.shape, size)
    mine = moved(rows, shape, lambda kernel, index: index[:-1])
    other = moved(rows, shape, lambda kernel, index: (*index[:-2], index[-1]))
    sign = ">" if descending else "<"
    before = f"{{1}} {sign} {{0}}"
    if rows.dtype in FLOATS:
        first, second = ("{1}", "{0}") if descending else ("{0}", "{1}")
        before = f"({before} || ({first} != {first} && {second} == {second}))"

    def element(kernel: Kernel, index: Index) -> str:
        one, two = kernel.at(mine, index), kernel.at(other, index)
        own, others = (kernel.radix.number(index[at]) for at in (-2, -1))
        is_before, is_after = before.format(one, two), before.format(two, one)
        return f"int(({is_before}) || (!({is_after}) && {others} < {own}))"

    counted = Pointwise(shape, "int32", "rank", (mine, other), element, 4)
    return reduced(counted, (len(shape) - 1,), "sum", "rank")


def _places(shape: tuple[Dim, ...]) -> Value:
    return Pointwise(
        shape, "int64", "place", (), lambda kernel, index: f"int64_t({kernel.radix.number(index[-1])})"
    )
