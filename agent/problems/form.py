"""Compare two traces of a reference, at its real sizes and at other sizes.

The comparison is pure. `same_operators` holds if the same operators run in the same order on operands of the
same ranks and dtypes. `same_work` also requires that no important property of the sizes was lost.
"""

from pydantic import JsonValue

from agent.records import Operation, TensorSpec, Trace

Specs = tuple[TensorSpec, ...]


def same_operators(real: Trace, used: Trace) -> bool:
    """Return True if `used` runs the operators of `real` in the same order, whatever the sizes."""
    return len(real.operations) == len(used.operations) and all(
        one.overload == other.overload
        and one.takes_result_of == other.takes_result_of
        and one.attributes.keys() == other.attributes.keys()
        and _same_kinds((*one.inputs, *one.outputs), (*other.inputs, *other.outputs))
        for one, other in zip(real.operations, used.operations, strict=True)
    )


def same_work(real: Trace, used: Trace, *, rests: bool = True, extents: bool = True) -> bool:
    """Return True if `used` runs the same operators in the same order and only sizes differ.

    A group keeps at least two channels if it had more than one. With `extents`, an operator that reduced its
    operand still does, and a dimension has size 1 only if it had before. Dimensions of different sizes stay
    different: among the parameters, among the outputs, and in at least one call of each operator. With
    `rests`, a pooling or convolution window that left elements over at the end of its input still does.
    """
    if not same_operators(real, used):
        return False
    pairs = list(zip(real.operations, used.operations, strict=True))
    if not all(_same_operation(one, other) for one, other in pairs):
        return False
    if rests and not all(_rests(one) == _rests(other) for one, other in pairs):
        return False
    operands = [((*a.inputs, *a.outputs), (*b.inputs, *b.outputs)) for a, b in pairs]
    ends = [(real.outputs, used.outputs), (real.state, used.state)]
    if not extents:
        return True
    if not all(_ratio(one) < 2 or _ratio(other) >= 2 for one, other in pairs):
        return False
    distinct = {
        a.overload for (a, _), (one, other) in zip(pairs, operands, strict=True) if _distinct(one, other)
    }
    return (
        all(_ones_kept(one, other) for one, other in (*operands, *ends))
        and all(one.overload in distinct for one, _ in pairs)
        and all(_distinct(one, other) for one, other in ends)
    )


def group_size(operation: Operation) -> int:
    """Return the channels per group of a group norm, 1 for any other operator."""
    channels, groups = operation.attributes.get("C"), operation.attributes.get("group")
    return channels // groups if isinstance(channels, int) and isinstance(groups, int) and groups else 1


def macs(operation: Operation) -> int:
    """Return the multiply-accumulates of a product or convolution, 0 for any other operator.

    Only products and convolutions need more than one FLOP per element read.
    """
    read = sum(spec.elements for spec in operation.inputs)
    return operation.flops // 2 if operation.flops > read else 0


def _same_operation(real: Operation, used: Operation) -> bool:
    return (
        (real.broadcast is None) == (used.broadcast is None)
        and all(_same_kind(value, used.attributes[name]) for name, value in real.attributes.items())
        and (group_size(real) < 2 or group_size(used) >= 2)
    )


def _rests(operation: Operation) -> list[bool]:
    """Return for each dimension of a window True if the last window leaves elements of the input over."""
    given = operation.attributes
    windows, steps = given.get("kernel_size"), given.get("stride")
    if given.get("transposed") or not operation.inputs:
        return []
    if operation.op == "convolution" and len(operation.inputs) > 1:
        windows = list(operation.inputs[1].shape[2:])
    if not isinstance(windows, list) or not isinstance(steps, list):
        return []
    rank = len(windows)
    steps = steps or windows
    extents = operation.inputs[0].shape[-rank:]
    paddings, dilations = _each(given.get("padding"), rank, 0), _each(given.get("dilation"), rank, 1)
    return [
        (extent + 2 * padding - dilation * (int(str(window)) - 1) - 1) % int(str(step)) > 0
        for extent, padding, dilation, window, step in zip(
            extents, paddings, dilations, windows, _each(steps, rank, 1), strict=True
        )
    ]


def _each(given: JsonValue, rank: int, otherwise: int) -> list[int]:
    """Return one number per dimension; torch applies a single number to all of them."""
    numbers = [item for item in given if type(item) is int] if isinstance(given, list) else []
    if len(numbers) == 1:
        return numbers * rank
    return numbers if len(numbers) == rank else [otherwise] * rank


def _same_kinds(real: Specs, used: Specs) -> bool:
    kinds = [(len(spec.shape), spec.dtype, spec.name) for spec in real]
    return kinds == [(len(spec.shape), spec.dtype, spec.name) for spec in used]


def _extents(real: Specs, used: Specs) -> set[tuple[int, int]]:
    """Return the distinct pairs (real size, used size) over all dimensions."""
    return {
        (before, after)
        for one, other in zip(real, used, strict=True)
        for before, after in zip(one.shape, other.shape, strict=True)
    }


def _ones_kept(real: Specs, used: Specs) -> bool:
    """Return True if a dimension is 1, or 0, exactly where it was before."""
    return all(min(before, 2) == min(after, 2) for before, after in _extents(real, used))


def _distinct(real: Specs, used: Specs) -> bool:
    """Return True if dimensions that had different sizes still have different sizes."""
    extents = _extents(real, used)
    return len({after for _, after in extents}) == len(extents) or all(
        before == other for before, after in extents for other, also in extents if after == also
    )


def _same_kind(real: JsonValue, used: JsonValue) -> bool:
    """Return True if the values are equal or differ only in numbers of one type."""
    if isinstance(real, list) and isinstance(used, list):
        return len(real) == len(used) and all(map(_same_kind, real, used))
    numbers = (int, float)
    if isinstance(real, numbers) and isinstance(used, numbers) and not isinstance(real, bool):
        return type(real) is type(used)
    return real == used


def _ratio(operation: Operation) -> float:
    """Return elements of the largest operand per element of the first output: above 1 for a reduction.

    The ratio is 1 for windows and for products, whose inner dimension is treated like any other.
    """
    if (
        macs(operation)
        or "kernel_size" in operation.attributes
        or not operation.inputs
        or not operation.outputs
        or not operation.outputs[0].elements
    ):
        return 1
    return max(spec.elements for spec in operation.inputs) / operation.outputs[0].elements
