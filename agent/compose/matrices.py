"""Matrix products with special operands: triangular, diagonal, or with few rows, columns or little depth.

Products that are bound by memory become kernels like any other operator. The shipped product is told of a
triangular operand, or of a result of which one side is wanted, and leaves out the zeros. Elements on the
other side of a diagonal count as 0 even where they meet an infinity.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agent.compose.dims import Digit, Dim, Index, is_one
from agent.compose.kernel import Kernel
from agent.compose.pointwise import FLOATS, applied, number
from agent.compose.reductions import converted_to, kept, reduced
from agent.compose.tracing import Node
from agent.compose.values import Pointwise, Value, View
from agent.compose.views import expanded, moved, number_text, permuted, reshaped

FEW, SHALLOW = 4, 8
"""Maximum number of rows or columns for which each value of a product is the sum of a row. Maximum depth that
one thread sums by itself."""
OTHER = {"lower": "upper", "upper": "lower"}
"""Triangle that each triangle becomes when it is transposed."""


@dataclass(eq=False)
class Triangle(Pointwise):
    """A matrix with zeros on one side of its diagonal. `part` is the other side, `lower` or `upper`."""

    part: str = ""


@dataclass(eq=False)
class Diagonal(Pointwise):
    """A matrix with zeros off its diagonal."""


def lower(node: Node, name: str, args: list[Any]) -> Value | None:
    """Return the value of `tril`, `triu` or `diag_embed`, or None for any other operator."""
    if name in ("tril", "triu"):
        return _side(node, name, args)
    return _diagonal(node, args) if name == "diag_embed" and len(args) == 1 else None


def _side(node: Node, name: str, args: list[Any]) -> Value:
    source, apart = args[0], args[1] if len(args) > 1 else 0
    sign = "<=" if name == "tril" else ">="

    def element(kernel: Kernel, index: Index) -> str:
        row, column = (f"int64_t({kernel.radix.number(index[axis])})" for axis in (-2, -1))
        zero = number(0, source.dtype, kernel)
        return f"({column} - {row} {sign} {number_text(kernel, apart)} ? {kernel.at(source, index)} : {zero})"

    made = (source.shape, source.dtype, name, (source,), element)
    if apart != 0:
        return Pointwise(*made)
    return Triangle(*made, part="lower" if name == "tril" else "upper")


def _diagonal(node: Node, args: list[Any]) -> Value:
    source = args[0]

    def element(kernel: Kernel, index: Index) -> str:
        row, column = (kernel.radix.number(index[axis]) for axis in (-2, -1))
        one = kernel.at(source, index[:-1])
        return f"({row} == {column} ? {one} : {number(0, source.dtype, kernel)})"

    return Diagonal(node.shapes[0], source.dtype, "diagonal", (source,), element)


def part_of(value: Value) -> tuple[Value, str]:
    """Return the source of a triangular matrix and its side.

    Any other matrix is its own source and `whole`.
    """
    if isinstance(value, Triangle):
        return value.operands[0], value.part
    if not isinstance(value, View) or not (_is_turned(value) or _is_of_many(value)):
        return value, "whole"
    source, part = part_of(value.operands[0])
    if part == "whole":
        return value, part
    return (permuted(source, list(value.order)), OTHER[part]) if value.order else (
        expanded(source, value.shape), part
    )  # fmt: skip


def _is_turned(value: Value) -> bool:
    """Return True if the value is a view of transposed matrices."""
    rank = len(value.shape)
    return isinstance(value, View) and value.order == (*range(rank - 2), rank - 1, rank - 2)


def _is_of_many(value: View) -> bool:
    """Return True if the view repeats the same matrices."""
    return value.is_expanded and value.shape[-2:] == value.operands[0].shape[-2:]


def by_a_diagonal(node: Node, name: str, args: list[Any]) -> Value | None:
    """Return a product with a diagonal matrix, or None for any other product.

    The product is a multiplication by a factor for each row or column.
    """
    if name not in ("mm", "bmm"):
        return None
    for operand, other, axis in ((args[0], args[1], -1), (args[1], args[0], -2)):
        values = _diagonal_of(operand)
        if values is not None:
            shape = list(values.shape)
            shape.insert(len(shape) + 1 + axis, (1,) * len(shape[0]))
            factor = reshaped(values, tuple(shape))
            return applied("({0} * {1})", [other, factor], node.shapes[0], node.dtypes[0], name)
    return None


def _diagonal_of(value: Value) -> Value | None:
    """Return the values of a diagonal matrix, or None for any other matrix."""
    if isinstance(value, Diagonal):
        return value.operands[0]
    if not isinstance(value, View) or not (_is_turned(value) or _is_of_many(value)):
        return None
    values = _diagonal_of(value.operands[0])
    return None if values is None else expanded(values, value.shape[:-1])


def of_few(
    node: Node, name: str, args: list[Any], kwargs: dict[str, Any], in_memory: Callable[[Value], Value]
) -> Value | None:
    """Return a product of few rows, few columns or little depth, or None for any other.

    The value includes the term that is added to the product. `in_memory` stores an operand that several
    values are computed from.
    """
    if name not in ("mm", "bmm", "addmm", "baddbmm") or node.dtypes[0] not in FLOATS[:1] + FLOATS[2:]:
        return None
    *added, a, b = args
    shape = node.shapes[0]
    rows, columns, depth = a.shape[-2], b.shape[-1], a.shape[-1]
    if is_one(depth):
        made: Value = applied("({0} * {1})", [in_memory(a), in_memory(b)], shape, "float32", name)
    elif depth[0] <= SHALLOW:
        made = _summed_by_one(in_memory(a), in_memory(b), shape, name)
    elif min(rows[0], columns[0]) <= FEW:
        a, b = a if columns[0] <= FEW else in_memory(a), b if rows[0] <= FEW else in_memory(b)
        made = _sum_of_rows(a, b, shape, name)
    else:
        return None
    if not added:
        return converted_to(made, node.dtypes[0])
    factors = [kwargs.get("alpha", 1), kwargs.get("beta", 1)]
    whole = applied("({0} * {2} + {1} * {3})", [made, added[0], *factors], shape, "float32", name)
    return converted_to(whole, node.dtypes[0])


def _sum_of_rows(a: Value, b: Value, shape: tuple[Dim, ...], about: str) -> Value:
    """Return a product as sums of rows.

    The depth is the last dimension if the larger operand is stored that way. Otherwise the depth comes before
    the rows and columns.
    """
    larger_is_a = b.shape[-1][0] <= a.shape[-2][0]
    is_last = not _is_turned(a) if larger_is_a else _is_turned(b)
    rank, batch, (rows, columns) = len(shape), shape[:-2], shape[-2:]
    depth = a.shape[-1]
    whole = (*batch, rows, columns, depth) if is_last else (*batch, depth, rows, columns)
    at = {"row": rank - 2, "column": rank - 1, "depth": rank} if is_last else {
        "depth": rank - 2, "row": rank - 1, "column": rank
    }  # fmt: skip

    def seen(operand: Value, first: str, second: str) -> Value:
        return moved(
            operand, whole, lambda kernel, index: (*index[: rank - 2], index[at[first]], index[at[second]])
        )

    operands = [seen(a, "row", "depth"), seen(b, "depth", "column")]
    products = applied("({0} * {1})", operands, whole, "float32")
    return kept(reduced(products, (at["depth"],), "sum", about), shape)


def _summed_by_one(a: Value, b: Value, shape: tuple[Dim, ...], about: str) -> Value:
    depth = a.shape[-1]

    def element(kernel: Kernel, index: Index) -> str:
        loop = kernel.body.fresh("k")
        at = (Digit(loop, depth),)

        def step(name: str) -> None:
            one, other = kernel.at(a, (*index[:-1], at)), kernel.at(b, (*index[:-2], at, index[-1]))
            kernel.body.say(f"{name} += {one} * {other};")

        return kernel.body.window("0.0f", "float32", {loop: kernel.size(depth)}, step)

    return Pointwise(shape, "float32", about, (a, b), element, 2 * depth[0])
