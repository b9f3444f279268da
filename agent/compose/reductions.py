"""Operators that reduce dimensions, and operators built from reductions: norms, softmax, losses."""

from collections.abc import Sequence
from typing import Any

from agent.compose.declined import Declined
from agent.compose.dims import Dim, Index, divided, is_one, times
from agent.compose.kernel import Kernel
from agent.compose.pointwise import applied
from agent.compose.tracing import Node
from agent.compose.values import Pointwise, Reduction, Scan, Value
from agent.compose.views import permuted, reshaped

KINDS = {"sum": "sum", "amax": "max", "amin": "min", "prod": "prod", "any": "max", "all": "min"}


def lower(node: Node, name: str, args: list[Any], kwargs: dict[str, Any]) -> Value | tuple[Value, ...] | None:
    """Return the value or values of an operator of this kind, or None for any other."""
    shape, dtype = node.shapes[0], node.dtypes[0]
    if name in ("any", "all"):
        flags = converted_to(converted_to(args[0], "bool"), "int32")
        return converted_to(kept(reduced(flags, axes_of(args), KINDS[name], name), shape), "bool")
    if name in KINDS:
        return kept(reduced(converted_to(args[0], dtype), axes_of(args), KINDS[name], name), shape)
    if name == "mean":
        return kept(mean(converted_to(args[0], dtype), axes_of(args)), shape)
    if name in ("var", "var_mean"):
        middle, spread = _variance(args, kwargs)
        results = tuple(kept(value, into) for value, into in zip((spread, middle), node.shapes, strict=False))
        return results if name == "var_mean" else results[0]
    if name in ("max", "min") and len(args) == 1:
        return kept(reduced(args[0], axes_of(args), name, name), shape)
    if name in ("_softmax", "softmax"):
        return softmax(args[0], args[1])
    if name in ("_log_softmax", "log_softmax"):
        return _log_softmax(args[0], args[1])
    if name == "logsumexp":
        return kept(_log_of_sum(converted_to(args[0], dtype), axes_of(args)), shape)
    if name == "native_layer_norm":
        return _layer_norm(*args)
    if name == "native_group_norm":
        return _group_norm(node, args)
    if name in ("cumsum", "cumprod"):
        return _scan(converted_to(args[0], dtype), args[1], name)
    if name == "linalg_vector_norm":
        return kept(_norm(args), shape)
    if name in ("native_batch_norm", "_native_batch_norm_legit_no_training"):
        return _batch_norm(args)
    return None


def matrix_vector(node: Node, name: str, args: list[Any]) -> Value | None:
    """Return a product with one column, bound by memory, as the sum of a row. None for any other product."""
    if name not in ("mm", "bmm") or not is_one(args[1].shape[-1]) or args[0].dtype != "float32":
        return None
    a, column = args
    rank = len(a.shape)
    row = permuted(column, [*range(rank - 2), rank - 1, rank - 2])
    return kept(
        reduced(applied("({0} * {1})", [a, row], a.shape, a.dtype), (rank - 1,), "sum", name), node.shapes[0]
    )


def axes_of(args: list[Any]) -> tuple[int, ...]:
    """Return the dimensions that an operator's second argument names, or all if it names none."""
    rank = len(args[0].shape)
    named: Any = args[1] if len(args) > 1 else None
    if isinstance(named, int) and not isinstance(named, bool):
        named = [named]
    return tuple(sorted(axis % rank for axis in named)) if named else tuple(range(rank))


def reduced(source: Value, axes: Sequence[int], kind: str, about: str) -> Value:
    """Return the source reduced over these dimensions, which the result no longer has."""
    shape = tuple(size for axis, size in enumerate(source.shape) if axis not in axes)
    over = tuple(axis for axis in axes if not is_one(source.shape[axis]))
    if not over:
        return reshaped(source, shape)
    bare = tuple(size for axis, size in enumerate(source.shape) if axis not in over)
    return kept(Reduction(bare, source.dtype, about, source, over, kind), shape)


def kept(value: Value, shape: tuple[Dim, ...]) -> Value:
    """Return the value with the dimensions of size one that the operator keeps."""
    return value if value.shape == shape else reshaped(value, shape)


def converted_to(value: Value, dtype: str) -> Value:
    return value if value.dtype == dtype else applied("{0}", [value], value.shape, dtype)


def count(source: Value, axes: Sequence[int]) -> Dim:
    """Return the number of elements that are reduced to one."""
    points = len(source.shape[0]) if source.shape else 1
    return times((source.shape[axis] for axis in axes), points)


def mean(source: Value, axes: Sequence[int]) -> Value:
    """Return the mean over these dimensions, which the result no longer has."""
    total = reduced(source, axes, "sum", "mean")
    return _over(total, [source.shape[axis] for axis in axes], 0)


def _over(value: Value, sizes: list[Dim], less: float) -> Value:
    """Return the value divided by a number of elements, of which `less` do not count."""

    def element(kernel: Kernel, index: Index) -> str:
        by = f"float({kernel.size(kernel.product(sizes))})" + (f" - {float(less)!r}f" if less else "")
        return f"{kernel.at(value, index)} / ({by})"

    return Pointwise(value.shape, value.dtype, "", (value,), element)


def along(value: Value, source: Value, axes: Sequence[int]) -> Value:
    """Return a reduced value with size one in place of the reduced dimensions."""
    points = len(source.shape[0])
    shape = tuple((1,) * points if axis in axes else size for axis, size in enumerate(source.shape))
    return reshaped(value, shape)


def _variance(args: list[Any], kwargs: dict[str, Any]) -> tuple[Value, Value]:
    source, axes = args[0], axes_of(args)
    less = kwargs.get("correction", 1)
    if isinstance(args[1] if len(args) > 1 else None, bool):
        axes, less = tuple(range(len(source.shape))), int(args[1])
    less = 1 if less is None else less
    over = [source.shape[axis] for axis in axes]
    if not source.shape or all(is_one(size) for size in over):
        middle = mean(source, axes)
        return middle, _over(applied("{0} - {0}", [middle], middle.shape, middle.dtype), over, less)
    state = state_of(converted_to(source, "float32"), axes, "moments", "spread", "variance")
    return part_of(state, "mean"), _over(part_of(state, "apart"), over, less)


def state_of(source: Value, axes: Sequence[int], kind: str, dtype: str, about: str) -> Value:
    """Return the reduction state from which several results are taken, computed in one pass."""
    shape = tuple(size for axis, size in enumerate(source.shape) if axis not in axes)
    over = tuple(axis for axis in axes if not is_one(source.shape[axis]))
    bare = tuple(size for axis, size in enumerate(source.shape) if axis not in over)
    return kept(Reduction(bare, dtype, about, source, over, kind), shape)


def part_of(state: Value, name: str) -> Value:
    return Pointwise(
        state.shape, "float32", "", (state,), lambda kernel, index: f"{kernel.at(state, index)}.{name}"
    )


def softmax(source: Value, axis: int) -> Value:
    """Return the softmax over one dimension."""
    apart, total = _exponentials(source, axis)
    return applied("expf({0}) / {1}", [apart, total], source.shape, source.dtype, "softmax", 12)


def _exponentials(source: Value, axis: int) -> tuple[Value, Value]:
    """Return the difference to the maximum, and the sum of its exponentials."""
    axes = (axis % len(source.shape),)
    if is_one(source.shape[axes[0]]):
        apart = applied("{0} - {0}", [source], source.shape, source.dtype)
        return apart, applied("{0} + 1.0f", [apart], source.shape, source.dtype)
    state = along(state_of(source, axes, "softmax", "exponentials", "softmax"), source, axes)
    apart = applied("{0} - {1}", [source, part_of(state, "most")], source.shape, source.dtype)
    return apart, part_of(state, "sum")


def _log_of_sum(source: Value, axes: tuple[int, ...]) -> Value:
    if not source.shape or all(is_one(source.shape[axis]) for axis in axes):
        return reduced(source, axes, "sum", "logsumexp")
    state = state_of(source, axes, "softmax", "exponentials", "logsumexp")
    operands = [part_of(state, "most"), part_of(state, "sum")]
    text = "(isinf({0}) ? {0} : {0} + logf({1}))"
    return applied(text, operands, state.shape, source.dtype, "logsumexp", 12)


def _log_softmax(source: Value, axis: int) -> Value:
    apart, total = _exponentials(source, axis)
    return applied("{0} - logf({1})", [apart, total], source.shape, source.dtype, about="log_softmax", work=8)


def _layer_norm(
    source: Value, normalized: list[Any], weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value, Value, Value]:
    axes = tuple(range(len(source.shape) - len(normalized), len(source.shape)))
    middle, spread = _variance([source, list(axes)], {"correction": 0})
    deviation = applied("(1.0f / sqrtf({0} + {1}))", [spread, eps], spread.shape, spread.dtype)
    operands = [source, along(middle, source, axes), along(deviation, source, axes)]
    text = "({0} - {1}) * {2}"
    for operand, more in ((weight, " * {%d}"), (bias, " + {%d}")):
        if operand is not None:
            text += more % len(operands)
            operands.append(operand)
    result = applied(text, operands, source.shape, source.dtype, "layer_norm", 2)
    return result, along(middle, source, axes), along(deviation, source, axes)


def _group_norm(node: Node, args: list[Any]) -> tuple[Value, Value, Value]:
    source, weight, bias, eps = *args[:3], args[-1]
    images, of_group = node.shapes[1]
    each = divided(count(source, range(1, len(source.shape))), of_group)
    assert each is not None
    rows = reshaped(source, (images, of_group, each))
    result, middle, deviation = _layer_norm(rows, [0], None, None, eps)
    whole = reshaped(result, source.shape)
    return _scaled(whole, weight, bias, "group_norm"), middle, deviation


def _scaled(source: Value, weight: Value | None, bias: Value | None, about: str) -> Value:
    """Return the source with a factor and a term for each channel, the second dimension."""
    if weight is None and bias is None:
        return source
    channels, operands = range(1, len(source.shape)), [source]
    text = "{0}"
    for operand, more in ((weight, " * {%d}"), (bias, " + {%d}")):
        if operand is not None:
            text += more % len(operands)
            operands.append(_per_channel(operand, len(channels)))
    return applied(text, operands, source.shape, source.dtype, about=about)


def _per_channel(value: Value, dims: int) -> Value:
    one = (1,) * len(value.shape[0])
    return reshaped(value, (value.shape[0], *(one,) * (dims - 1)))


def _scan(source: Value, axis: int, name: str) -> Value:
    if not source.shape:
        return source
    over = (axis % len(source.shape),)
    return Scan(source.shape, source.dtype, name, source, over, {"cumsum": "sum", "cumprod": "prod"}[name])


def _norm(args: list[Any]) -> Value:
    source, order = args[0], float(args[1]) if len(args) > 1 else 2.0
    axes = axes_of([source, *args[2:3]])
    texts = {1.0: "fabsf({0})", 2.0: "({0} * {0})", float("inf"): "fabsf({0})"}
    if order not in texts:
        raise Declined(f"the norm of order {order:g} is not composed yet")
    parts = applied(texts[order], [source], source.shape, source.dtype, about="norm")
    total = reduced(parts, axes, "max" if order > 2 else "sum", "norm")
    return applied("sqrtf({0})", [total], total.shape, total.dtype, work=4) if order == 2 else total


def _batch_norm(args: list[Any]) -> tuple[Value, ...]:
    source, weight, bias, middle, spread = args[:5]
    if len(args) == 8 and args[5]:
        return _own_batch_norm(source, weight, bias, args[-1])
    dims, eps = len(source.shape) - 1, args[-1]
    deviation = applied("(1.0f / sqrtf({0} + {1}))", [spread, eps], spread.shape, spread.dtype)
    operands = [source, _per_channel(middle, dims), _per_channel(deviation, dims)]
    normal = applied("({0} - {1}) * {2}", operands, source.shape, source.dtype, about="batch_norm")
    return _scaled(normal, weight, bias, "batch_norm"), middle, spread


def _own_batch_norm(
    source: Value, weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value, Value, Value]:
    """Return batch norm with the mean and the variance of the input itself.

    Instance norm decomposes into this operator.
    """
    axes = tuple(axis for axis in range(len(source.shape)) if axis != 1)
    middle, spread = _variance([source, list(axes)], {"correction": 0})
    deviation = applied("(1.0f / sqrtf({0} + {1}))", [spread, eps], spread.shape, spread.dtype)
    operands = [source, along(middle, source, axes), along(deviation, source, axes)]
    normal = applied("({0} - {1}) * {2}", operands, source.shape, source.dtype, about="batch_norm")
    return _scaled(normal, weight, bias, "batch_norm"), middle, deviation
