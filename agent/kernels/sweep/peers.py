"""Functions of other libraries for the same calls: Liger's functions, if `liger_kernel` is installed."""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from agent.kernels.case import Case, Function
from agent.kernels.fused_cases import targets_of


def load_peers(case: Case) -> dict[str, Function]:
    """Return the peers by name; empty if none is installed, or none supports the case."""
    made = _LIGER.get(case.kernel)
    liger = _liger()
    function = made(liger, case) if made and liger else None
    return {"Liger": function} if function else {}


@cache
def _liger() -> Any:
    try:
        return import_module("liger_kernel.transformers.functional")
    except ImportError:
        return None


def _group_norm(liger: Any, case: Case) -> Function | None:
    if "silu" in case.setting or len(case.shape) < 3:
        return None
    groups = int(case.setting.split()[0])
    return lambda x, weight, bias: liger.liger_group_norm(x, weight, bias, x.shape[1], groups, 1e-5)


def _layer_norm(liger: Any, case: Case) -> Function | None:
    return lambda x, weight, bias: liger.liger_layer_norm(x, weight, bias, 1e-5)


def _rms_norm(liger: Any, case: Case) -> Function | None:
    # Not in place: Liger would overwrite the result's gradient, which other operators may need.
    return lambda x, weight: liger.liger_rms_norm(x, weight, 1e-6, in_place=False)


def _add_rms_norm(liger: Any, case: Case) -> Function | None:
    fused = liger.liger_fused_add_rms_norm
    return lambda x, residual, weight: fused(x, residual, weight, 1e-6, in_place=False)


def _cross_entropy(liger: Any, case: Case) -> Function | None:
    loss, targets = liger.liger_cross_entropy, targets_of(case.shape)
    return lambda x: loss(x, targets(x), label_smoothing=0.1, reduction="none")


def _softmax(liger: Any, case: Case) -> Function | None:
    return None if "dimension" in case.setting else lambda x: liger.liger_softmax(x)


def _gate(liger: Any, case: Case) -> Function | None:
    if "two" not in case.setting:
        return None
    return lambda gate, value: liger.liger_swiglu(gate, value)


_LIGER: dict[str, Callable[[Any, Case], Function | None]] = {
    "add_rms_norm": _add_rms_norm,
    "cross_entropy": _cross_entropy,
    "gate_product": _gate,
    "group_norm": _group_norm,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "softmax": _softmax,
}
