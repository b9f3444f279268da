"""Operators that move elements and compute nothing, as the source place of each result element."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from agent.compose.body import C_TYPES
from agent.compose.dims import Digit, Dim, Index, is_one
from agent.compose.kernel import Kernel
from agent.compose.pointwise import number
from agent.compose.tracing import Node, Varying
from agent.compose.values import Pointwise, Value, View, broadcast

Place = Callable[[Kernel, Index], Index]
_RESHAPES = frozenset(
    {"view", "_unsafe_view", "reshape", "unsqueeze", "squeeze", "squeeze_", "flatten", "_reshape_alias"}
)


def lower(node: Node, name: str, args: list[Any], kwargs: dict[str, Any]) -> Value | None:
    """Return the value of an operator of this kind, or None for any other."""
    if name in _RESHAPES:
        return reshaped(args[0], node.shapes[0])
    made = _MOVES.get(name)
    return made(node, args, kwargs) if made else None


def moved(
    source: Value, shape: tuple[Dim, ...], place: Place, about: str = "", text: str | None = None
) -> View:
    """Return a view with the elements of `source` at `place` of each index."""
    return View(
        shape, source.dtype, about, (source,),
        lambda kernel, index: kernel.at(source, place(kernel, index)), 0, text,
    )  # fmt: skip


def leading(source: Value, shape: tuple[Dim, ...]) -> Value:
    """Return the first elements of `source` along each dimension, as many as `shape` has."""

    def place(kernel: Kernel, index: Index) -> Index:
        pairs = zip(index, shape, source.shape, strict=True)
        return tuple(
            digits if used == size else offset(kernel, digits, "{}", size) for digits, used, size in pairs
        )

    return moved(source, shape, place)


def reshaped(source: Value, shape: tuple[Dim, ...]) -> Value:
    if shape == source.shape:
        return source
    view = moved(source, shape, lambda kernel, index: kernel.radix.regrouped(index, source.shape))
    return replace(view, is_reshape=True)


def permuted(source: Value, order: list[int]) -> Value:
    order = [axis % len(order) for axis in order]
    shape = tuple(source.shape[axis] for axis in order)

    def place(kernel: Kernel, index: Index) -> Index:
        return tuple(index[order.index(axis)] for axis in range(len(order)))

    view = moved(source, shape, place, text=f"{{0}}.permute({', '.join(map(str, order))})")
    return replace(view, order=tuple(order))


def offset(kernel: Kernel, digits: tuple[Digit, ...], text: str, size: Dim) -> tuple[Digit, ...]:
    """Return one digit below `size`, from a formula in which `{}` stands for the number of other digits."""
    return () if is_one(size) else (Digit(f"({text.format(kernel.radix.number(digits))})", size),)


def number_text(kernel: Kernel, value: Any) -> str:
    """Return an integer of the trace as C++."""
    if isinstance(value, Varying):
        return kernel.size(tuple(int(v) for v in value.values))
    return str(int(value))


def at_points(value: Any, points: int) -> Dim:
    """Return an integer of the trace at every point."""
    return tuple(int(v) for v in value.values) if isinstance(value, Varying) else (int(value),) * points


def _permute(node: Node, args: list[Any], kwargs: dict[str, Any]) -> Value:
    return permuted(args[0], list(args[1]))


def _transpose(node: Node, args: list[Any], kwargs: dict[str, Any]) -> Value:
    rank = len(args[0].shape)
    order = list(range(rank))
    one, other = (args[1] % rank, args[2] % rank) if len(args) > 2 else (0, rank - 1)
    order[one], order[other] = order[other], order[one]
    return permuted(args[0], order)


def _expand(node: Node, args: list[Any], kwargs: dict[str, Any]) -> Value:
    return expanded(args[0], node.shapes[0])


def expanded(source: Value, shape: tuple[Dim, ...]) -> Value:
    if shape == source.shape:
        return source
    text = f"{{0}}.expand({', '.join(f'{{{at + 1}}}' for at in range(len(shape)))})"
    view = moved(source, shape, lambda kernel, index: broadcast(source, shape, index), text=text)
    return replace(view, is_expanded=True, sizes=shape)


def _slice(node: Node, args: list[Any], kwargs: dict[str, Any]) -> Value:
    source, given = args[0], [*args[1:], *[None] * (5 - len(args))]
    axis, start, step = (given[0] or 0) % len(source.shape), given[1], given[3]
    points = len(source.shape[axis])
    size = source.shape[axis]
    begin = at_points(start or 0, points)
    begin = tuple(min(max(b + s if b < 0 else b, 0), s) for b, s in zip(begin, size, strict=True))
    shape, step = node.shapes[0], 1 if step is None else step

    def place(kernel: Kernel, index: Index) -> Index:
        if shape == source.shape:
            return index
        first = str(begin[0]) if len(set(begin)) == 1 else kernel.size(begin)
        text = f"{first} + {{}}" + (f" * {number_text(kernel, step)}" if step != 1 else "")
        return (*index[:axis], offset(kernel, index[axis], text, size), *index[axis + 1 :])

    if step != 1 or len(set(begin)) > 1:
        return moved(source, shape, place)
    view = moved(source, shape, place, text=f"{{0}}.narrow({axis}, {begin[0]}, {{1}})")
    return replace(view, sizes=(shape[axis],))


def _select(node: Node, args: list[Any], kwargs: dict[str, Any]) -> Value:
    source, axis, wanted = args
    axis %= len(source.shape)
    size = source.shape[axis]
    chosen = tuple(w % s for w, s in zip(at_points(wanted, len(size)), size, strict=True))

    def place(kernel: Kernel, index: Index) -> Index:
        text = str(chosen[0]) if len(set(chosen)) == 1 else kernel.size(chosen)
        own = () if is_one(size) else (Digit(text, size),)
        return (*index[:axis], own, *index[axis:])

    constant = f"{{0}}.select({axis}, {chosen[0]})" if len(set(chosen)) == 1 else None
    return moved(source, node.shapes[0], place, text=constant)


def parts(node: Node, name: str, args: list[Any]) -> tuple[Value, ...] | None:
    """Return the values of an operator that splits a tensor along a dimension, or None for any other."""
    if name not in ("split", "split_with_sizes", "unbind"):
        return None
    source, axis = (
        args[0],
        (args[-1] if len(args) > (1 if name == "unbind" else 2) else 0) % len(args[0].shape),
    )
    begin, found = (0,) * len(source.shape[axis]), list[Value]()
    for place, shape in enumerate(node.shapes):
        if name == "unbind":
            found.append(_select(replace(node, shapes=(shape,)), [source, axis, place], {}))
            continue
        start = begin[0] if len(set(begin)) == 1 else Varying(begin)
        found.append(_slice(replace(node, shapes=(shape,)), [source, axis, start], {}))
        begin = tuple(a + b for a, b in zip(begin, shape[axis], strict=True))
    return tuple(found)


def _flip(node: Node, args: list[Any], kwargs: dict[str, Any]) -> Value:
    source = args[0]
    axes = {axis % len(source.shape) for axis in args[1]}

    def place(kernel: Kernel, index: Index) -> Index:
        return tuple(
            offset(kernel, digits, f"{kernel.size(size)} - 1 - {{}}", size) if axis in axes else digits
            for axis, (digits, size) in enumerate(zip(index, source.shape, strict=True))
        )

    return moved(source, node.shapes[0], place, "flip")


def _repeat(node: Node, args: list[Any], kwargs: dict[str, Any]) -> Value:
    source, shape = args[0], node.shapes[0]

    def place(kernel: Kernel, index: Index) -> Index:
        own = index[len(shape) - len(source.shape) :]
        sizes = shape[len(shape) - len(source.shape) :]
        return tuple(
            digits if size == big else offset(kernel, digits, f"{{}} % {kernel.size(size)}", size)
            for digits, size, big in zip(own, source.shape, sizes, strict=True)
        )

    return moved(source, shape, place, "repeat")


def _cat(node: Node, args: list[Any], kwargs: dict[str, Any]) -> Value:
    parts = [part for part in args[0] if part.shape != ((0,) * len(node.shapes[0][0]),)]
    axis = (args[1] if len(args) > 1 else kwargs.get("dim", 0)) % len(node.shapes[0])
    return joined(parts, axis, node.shapes[0], node.dtypes[0])


def _stack(node: Node, args: list[Any], kwargs: dict[str, Any]) -> Value:
    axis = (args[1] if len(args) > 1 else kwargs.get("dim", 0)) % len(node.shapes[0])
    one = (1,) * len(node.shapes[0][0])
    parts = [reshaped(part, (*part.shape[:axis], one, *part.shape[axis:])) for part in args[0]]
    return joined(parts, axis, node.shapes[0], node.dtypes[0])


def joined(parts: list[Value], axis: int, shape: tuple[Dim, ...], dtype: str) -> Value:
    """Return the concatenation of the parts along an axis."""

    def element(kernel: Kernel, index: Index) -> str:
        at = kernel.body.temp(kernel.radix.number(index[axis]), "int64")

        def part(number: int, before: Dim) -> str:
            source = parts[number]
            size = source.shape[axis]
            start = _sum_text(kernel, before)
            own = () if is_one(size) else (Digit(f"({at} - {start})" if any(before) else at, size),)

            def here() -> str:
                return kernel.at(source, (*index[:axis], own, *index[axis + 1 :]))

            if number == len(parts) - 1:
                return here()
            end = tuple(a + b for a, b in zip(before, size, strict=True))
            return kernel.body.choose(
                f"{at} < {_sum_text(kernel, end)}", dtype, here, lambda: part(number + 1, end)
            )

        return part(0, (0,) * len(shape[axis]))

    return Pointwise(shape, dtype, "cat", tuple(parts), element)


def _sum_text(kernel: Kernel, size: Dim) -> str:
    return "0" if not any(size) else kernel.size(size)


def padded(source: Value, amounts: list[tuple[Any, Any]], fill: Any, shape: tuple[Dim, ...]) -> Value:
    """Return the padded source. `amounts` are the elements before and after, for each dimension."""

    def element(kernel: Kernel, index: Index) -> str:
        tests, places = [], []
        for digits, (before, after), size in zip(index, amounts, source.shape, strict=True):
            if before == 0 and after == 0:
                places.append(digits)
                continue
            at = kernel.body.temp(
                f"int64_t({kernel.radix.number(digits)}) - {number_text(kernel, before)}", "int64"
            )
            tests.append(f"{at} >= 0 && {at} < {kernel.size(size)}")
            places.append(() if is_one(size) else (Digit(at, size),))
        return kernel.body.choose(
            " && ".join(tests) or "true", source.dtype,
            lambda: kernel.at(source, tuple(places)), lambda: number(fill, source.dtype, kernel),
        )  # fmt: skip

    return Pointwise(shape, source.dtype, "pad", (source,), element)


def _pad(node: Node, args: list[Any], kwargs: dict[str, Any]) -> Value:
    source, flat = args[0], list(args[1])
    pairs = [(flat[at], flat[at + 1]) for at in range(0, len(flat), 2)]
    amounts = [(0, 0)] * (len(source.shape) - len(pairs)) + pairs[::-1]
    fill = args[2] if len(args) > 2 else kwargs.get("value", 0)
    return padded(source, amounts, fill or 0, node.shapes[0])


def _arange(node: Node, args: list[Any], kwargs: dict[str, Any]) -> Value:
    start, step = (args[0], args[2] if len(args) > 2 else 1) if len(args) > 1 else (0, 1)
    dtype = node.dtypes[0]

    def element(kernel: Kernel, index: Index) -> str:
        first, each = number(start, dtype, kernel), number(step, dtype, kernel)
        return f"({first} + {each} * {C_TYPES[dtype]}({kernel.radix.number(index[0])}))"

    return Pointwise(node.shapes[0], dtype, "arange", (), element)


_MOVES: dict[str, Callable[[Node, list[Any], dict[str, Any]], Value]] = {
    "permute": _permute, "transpose": _transpose, "t": _transpose, "expand": _expand, "slice": _slice,
    "select": _select, "flip": _flip, "repeat": _repeat, "cat": _cat, "stack": _stack,
    "constant_pad_nd": _pad, "arange": _arange,
}  # fmt: skip
