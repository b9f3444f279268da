"""Pooling: each element is computed from a window of its operand."""

from collections.abc import Callable
from typing import Any

from agent.compose.body import C_TYPES
from agent.compose.declined import Declined
from agent.compose.dims import Digit, Dim, Index, is_one
from agent.compose.expressions import Sizes
from agent.compose.kernel import Kernel
from agent.compose.pointwise import FLOATS
from agent.compose.tracing import Node, Varying
from agent.compose.values import Pointwise, Value


def lower(
    node: Node, name: str, args: list[Any], kwargs: dict[str, Any], sizes: Sizes
) -> Value | tuple[Value, ...] | None:
    """Return the value or values of an operator of this kind, or None for any other."""
    if name.startswith("avg_pool"):
        return _average(node, args, kwargs, sizes)
    if name.startswith("max_pool") and name.endswith("with_indices"):
        if node.users > 1:
            raise Declined("the places of a pooling's maxima are not composed yet")
        pooled = _largest(node, args, kwargs, sizes)
        return pooled, pooled
    return None


def with_bias(taps: Value, bias: Value) -> Value:
    """Return the value with a term for each channel, the second dimension."""

    def element(kernel: Kernel, index: Index) -> str:
        return f"({kernel.at(taps, index)} + {kernel.at(bias, (index[1],))})"

    return Pointwise(taps.shape, taps.dtype, "bias", (taps, bias), element)


def settings(args: list[Any], rank: int, at: int, default: list[int]) -> list[int]:
    """Return the numbers of a window's argument, one for each dimension."""
    given = args[at] if len(args) > at and args[at] is not None and args[at] != [] else default
    given = list(given) if isinstance(given, (list, tuple)) else [given]
    if any(isinstance(value, Varying) for value in given):
        raise Declined("a pooling's window follows the sizes, which is not composed yet")
    return given * rank if len(given) == 1 else given


def _window(
    node: Node, args: list[Any], sizes: Sizes, apart_at: int | None = None
) -> tuple[list[int], list[int], list[int], list[int], int]:
    """Return window, step, padding, dilation, and the number of pooled dimensions.

    `apart_at`: position of the dilation argument, which precedes `ceil_mode`. Average pooling has no
    dilation.
    """
    source = args[0]
    rank = len(args[1]) if isinstance(args[1], (list, tuple)) else 1
    width = settings(args, rank, 1, [])
    step = settings(args, rank, 2, width)
    pad = settings(args, rank, 3, [0])
    apart = [1] * rank if apart_at is None else settings(args, rank, apart_at, [1])
    over_end = apart_at is not None and len(args) > apart_at + 1 and bool(args[apart_at + 1])
    for axis in range(rank):
        size, given = node.shapes[0][axis - rank], sizes.text(source.shape[axis - rank])
        sizes.define(size, count(given, [s[axis] for s in (width, step, pad, apart)], over_end))
    return width, step, pad, apart, rank


def count(given: str, window: list[int], over_end: bool = False) -> str:
    """Return the number of windows as Python. Windows that begin past the end of the input do not count."""
    width, step, pad, apart = window
    reach = 2 * pad - (width - 1) * apart - 1
    if not over_end:
        return f"({given} + {reach}) // {step} + 1"
    rounded_up = f"({given} + {reach + step - 1}) // {step} + 1"
    if pad + step <= (width - 1) * apart + 1:  # every window begins before the end
        return rounded_up
    return f"min({rounded_up}, ({given} + {pad - 1}) // {step} + 1)"


def _largest(node: Node, args: list[Any], kwargs: dict[str, Any], sizes: Sizes) -> Value:
    width, step, pad, apart, _ = _window(node, args, sizes, apart_at=4)

    def update(name: str, value: str) -> str:
        return f"if ({value} > {name} || {value} != {value}) {name} = {value};"

    return pooled(args[0], node, (width, step, pad, apart), ("-INFINITY", update, None))


def _average(node: Node, args: list[Any], kwargs: dict[str, Any], sizes: Sizes) -> Value:
    width, step, pad, _, rank = _window(node, args, sizes)
    counted, by = (args[5] if len(args) > 5 else True), (args[6] if len(args) > 6 else None)
    if not counted and any(pad):
        raise Declined("an average that leaves the padding out is not composed yet")
    if len(args) > 4 and args[4]:
        raise Declined("an average of windows that reach over the end is not composed yet")
    total = by
    if total is None:
        total = 1
        for size in width:
            total *= size
    return pooled(
        args[0], node, (width, step, pad, [1] * rank),
        ("0.0f", lambda name, value: f"{name} += {value};", f"{{}} / {float(total)!r}f"),
    )  # fmt: skip


def pooled(
    source: Value, node: Node, window: tuple[list[int], ...],
    how: tuple[str, Callable[[str, str], str], str | None],
    factor: Callable[[Kernel, Index, list[str]], str] | None = None,
) -> Value:  # fmt: skip
    """Return the value of a pooling.

    `how`: the start value of a window, the statement that updates it, and the final formula.
    """
    (width, step, pad, apart), (start, update, end) = window, how
    rank = len(width)
    before = len(source.shape) - rank

    def element(kernel: Kernel, index: Index) -> str:
        loops = {kernel.body.fresh("w"): size for size in width}

        def one(name: str) -> None:
            tests, places = [], list[tuple[Digit, ...]]()
            for axis, loop in enumerate(loops):
                own, size = index[before + axis], source.shape[before + axis]
                begin = f"int64_t({kernel.radix.number(own)}) * {step[axis]} - {pad[axis]}"
                at = kernel.body.temp(f"{begin} + {loop} * {apart[axis]}", "int64")
                if pad[axis] or not _fits(
                    source.shape[before + axis],
                    node.shapes[0][before + axis],
                    width[axis],
                    step[axis],
                    apart[axis],
                ):
                    tests.append(f"{at} >= 0 && {at} < {kernel.size(size)}")
                places.append(() if is_one(size) else (Digit(at, size),))
            whole = (*index[:before], *places)

            def line() -> str:
                value = kernel.at(source, whole)
                return update(name, f"{value} * {factor(kernel, index, list(loops))}" if factor else value)

            if tests:
                kernel.body.when(" && ".join(tests), line)
            else:
                kernel.body.say(line())

        texts = {loop: str(size) for loop, size in loops.items()}
        found = kernel.body.window(
            start if source.dtype in FLOATS else f"{C_TYPES[source.dtype]}(0)", source.dtype, texts, one
        )
        return end.format(found) if end else found

    work = 2
    for size in width:
        work *= size
    return Pointwise(node.shapes[0], node.dtypes[0], node.op.split(".")[1], (source,), element, work)


def _fits(size: Dim, pooled: Dim, width: int, step: int, apart: int) -> bool:
    """Return True if every window lies inside the source, at every point."""
    return all((p - 1) * step + (width - 1) * apart < s for s, p in zip(size, pooled, strict=True))
