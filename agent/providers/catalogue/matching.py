"""Matching of a trace to a shipped kernel by its op table; names play no part.

A match is an operator, its parameters and its settings. The kernel computes the operator at any shape of the
same rank in float32, contiguous or not. The trace cannot show that `forward` returns this operator's result
and not another tensor of the same shape. The judge decides that.
"""

from collections.abc import Callable
from typing import Literal

from agent.providers.catalogue import rms
from agent.records import Operation, Record, TensorSpec, Trace

Kernel = Literal["gelu", "group_norm", "layer_norm", "logsumexp", "rms_norm", "softmax"]
Setting = bool | int | float | str


class Declined(Record):
    reason: str
    """Reason as a clause that can end a sentence, without a full stop."""


class OperatorMatch(Record):
    """Operation of a catalogue kernel: one operator call, or several that form one operation."""

    kernel: Kernel
    overload: str
    """Exact operator, such as `aten.native_group_norm.default`; `RMSNorm` for RMSNorm, which has none."""
    parameters: dict[str, TensorSpec | None] = {}
    """`weight` and `bias`, in this order, if the kernel takes them. None if the reference has none."""
    sizes: dict[str, int] = {}
    """Settings that depend on the problem's sizes: `groups`."""
    settings: dict[str, Setting] = {}
    """Other settings: `eps`, `dim`, `dims` (number of trailing dimensions), `approximate`, `keepdim`."""


class Match(Record):
    operator: OperatorMatch
    source: str
    """Complete file with ModelNew."""


def match_trace(trace: Trace) -> OperatorMatch | Declined:
    """Return the kernel for the computation of the reference, or the reason why there is none."""
    try:
        found = _rms_norm(trace) if len(trace.operations) > 1 else _single(trace)
    except rms.NotRmsNorm:
        return Declined(reason=_several(trace))
    if isinstance(found, str):
        return Declined(reason=found)
    reason = _unfit(trace) or _foreign_operand(found, trace)
    return found if reason is None else Declined(reason=reason)


def _single(trace: Trace) -> OperatorMatch | str:
    if not trace.operations:
        return _several(trace)
    (operation,) = trace.operations
    if operation.op not in _KERNELS:
        return f"no kernel for the operator {operation.overload}, only for {', '.join(sorted(_KERNELS))}"
    return _KERNELS[operation.op](operation)


def _several(trace: Trace) -> str:
    names = ", ".join(operation.op for operation in trace.operations[:8])
    more = ", ..." if len(trace.operations) > 8 else ""
    count = len(trace.operations)
    return f"the reference runs {count} operators ({names}{more}) and the kernels cover one each"


def _unfit(trace: Trace) -> str | None:
    """Return the reason that excludes a trace regardless of its parameters, or None."""
    first, last = trace.operations[0], trace.operations[-1]
    if len(trace.inputs) != 1 or not isinstance(trace.inputs[0], TensorSpec):
        return f"the reference takes {len(trace.inputs)} inputs and the kernels take one tensor"
    dtypes = {t.dtype for operation in trace.operations for t in (*operation.inputs, *operation.outputs[:1])}
    if dtypes != {"float32"}:
        return f"the operands are {', '.join(sorted(dtypes))} and the catalogue answers for float32"
    x = first.inputs[0]
    if x.name is not None or x.shape != trace.inputs[0].shape:
        return "the operator's first operand is not the reference's input as it comes"
    if len(trace.outputs) != 1 or trace.outputs[0] != last.outputs[0]:
        return "the reference returns something else than the operator's first result"
    return None


def _foreign_operand(found: OperatorMatch, trace: Trace) -> str | None:
    """Return the reason if an operand is not a parameter of the right shape or state is unused, or None."""
    state = {tensor.name: tensor for tensor in trace.state}
    parameters = [tensor for tensor in found.parameters.values() if tensor is not None]
    for tensor in parameters:
        if tensor.name not in state:
            return f"an operand of shape {tensor.shape} is not in the state_dict"
        if tensor.shape != state[tensor.name].shape:
            return f"{tensor.name} has the shape {state[tensor.name].shape} and is used as {tensor.shape}"
    unused = [str(name) for name in state if name not in {tensor.name for tensor in parameters}]
    if unused:
        return f"the state_dict holds {', '.join(unused)}, which {found.kernel} does not use"
    return None


def _affine(operation: Operation) -> dict[str, TensorSpec | None]:
    """Return weight and bias by role. An absent one is listed among the attributes as None."""
    operands = iter(operation.inputs[1:])
    return {
        role: None if role in operation.attributes else next(operands, None) for role in ("weight", "bias")
    }


def _group_norm(operation: Operation) -> OperatorMatch:
    return OperatorMatch(
        kernel="group_norm",
        overload=operation.overload,
        parameters=_affine(operation),
        sizes={"groups": _integer(operation, "group")},
        settings={"eps": _real(operation, "eps")},
    )


def _layer_norm(operation: Operation) -> OperatorMatch:
    shape = operation.attributes["normalized_shape"]
    assert isinstance(shape, list)
    return OperatorMatch(
        kernel="layer_norm",
        overload=operation.overload,
        parameters=_affine(operation),
        settings={"dims": len(shape), "eps": _real(operation, "eps")},
    )


def _softmax(operation: Operation) -> OperatorMatch:
    return OperatorMatch(
        kernel="softmax", overload=operation.overload, settings={"dim": _integer(operation, "dim")}
    )


def _logsumexp(operation: Operation) -> OperatorMatch | str:
    dims = operation.attributes["dim"]
    assert isinstance(dims, list)
    if len(dims) != 1:
        return f"logsumexp is over {len(dims)} dimensions and the kernel reduces one"
    return OperatorMatch(
        kernel="logsumexp",
        overload=operation.overload,
        settings={"dim": int(str(dims[0])), "keepdim": operation.attributes["keepdim"] is True},
    )


def _rms_norm(trace: Trace) -> OperatorMatch:
    weight, dims, eps = rms.read(trace)
    return OperatorMatch(
        kernel="rms_norm",
        overload="RMSNorm",
        parameters={"weight": weight},
        settings={"dims": dims, "eps": eps},
    )


def _gelu(operation: Operation) -> OperatorMatch:
    return OperatorMatch(
        kernel="gelu",
        overload=operation.overload,
        settings={"approximate": str(operation.attributes["approximate"])},
    )


def _integer(operation: Operation, attribute: str) -> int:
    value = operation.attributes[attribute]
    assert isinstance(value, int)
    return value


def _real(operation: Operation, attribute: str) -> float:
    value = operation.attributes[attribute]
    assert isinstance(value, (int, float))
    return float(value)


_KERNELS: dict[str, Callable[[Operation], OperatorMatch | str]] = {
    "native_group_norm": _group_norm,
    "native_layer_norm": _layer_norm,
    "_softmax": _softmax,
    "logsumexp": _logsumexp,
    "gelu": _gelu,
}
