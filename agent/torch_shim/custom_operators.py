"""Operators that Python code registers through `torch.library`, and tracing by torch.compile.

An implementation for CUDA is registered for the CPU, where tensors really are. It always runs under the
emulated device. While torch.compile traces, tensors report cuda:0, and the emulated device is not traced.
Traced code that makes a tensor on `x.device` asks for a real GPU; torch reports an error if it has none.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import _get_current_function_mode_stack as _function_modes
from torch.utils._python_dispatch import TorchDispatchMode

from .device import EmulatedDevice
from .host_tensors import CUDA

_KEYS = {"CUDA": "CPU", "AutogradCUDA": "AutogradCPU"}
_TORCH = frozenset({"aten", "prims", "inductor", "quantized", "quantized_decomposed", "symm_mem", "rngprims"})

_CUSTOM_OP = "torch._library.custom_ops"


class Shown:
    """Dispatch mode that observes an operator; `entered` is True once the mode sees the inner operators."""

    def __init__(self, mode: TorchDispatchMode) -> None:
        self.mode, self.entered = mode, False


_shown: list[Shown] = []


_implemented: set[str] = set()
"""Names of operators with an implementation in Python for CUDA."""


def is_implemented(func: Any) -> bool:
    return func.name().partition(".")[0] in _implemented


def is_own(func: Any) -> bool:
    """Return True if the candidate's code defines the operator, and torch does not."""
    return func.namespace not in _TORCH


@contextlib.contextmanager
def shown_to(mode: TorchDispatchMode) -> Iterator[Shown]:
    """Let `mode` observe the operators inside an operator that it calls, if Python implements it."""
    shown = Shown(mode)
    _shown.append(shown)
    try:
        yield shown
    finally:
        _shown.remove(shown)


@contextlib.contextmanager
def _under_who_looks_on() -> Iterator[None]:
    if not _shown or _shown[-1].entered:
        yield
        return
    _shown[-1].entered = True
    with _shown[-1].mode:
        yield


def patch(mode: EmulatedDevice) -> None:
    """Replace `torch.library.Library.impl`, through which every registration goes."""
    owner: Any = torch.library.Library
    stock = owner.impl
    for_cuda: set[tuple[str, str]] = set()

    @functools.wraps(stock)
    def impl(library: Any, op_name: Any, fn: Any, dispatch_key: str = "", **kwargs: Any) -> Any:
        key = dispatch_key or library.dispatch_key
        name = library.ns, f"{op_name} {_KEYS.get(key, key)}"
        if key == "CPU" and name in for_cuda:
            return None
        known = key in _KEYS or key == "CompositeExplicitAutograd"
        # torch's own operators have CPU kernels already; operators that torch registers for users do not.
        module = str(getattr(fn, "__module__", ""))
        known = known and (module == _CUSTOM_OP or not module.startswith("torch."))
        if not known or library.ns in _TORCH or library.ns.startswith("_") or kwargs.get("with_keyset"):
            return stock(library, op_name, fn, dispatch_key, **kwargs)
        for_cuda.update([name] if key in _KEYS else [])
        plain = op_name if isinstance(op_name, str) else op_name.name()
        _implemented.add(f"{library.ns}::{plain.rpartition('::')[2].partition('.')[0]}")
        return stock(library, op_name, _on_device(fn, mode), _KEYS.get(key, key), **kwargs)

    owner.impl = impl


def _on_device(fn: Callable[..., Any], mode: EmulatedDevice) -> Callable[..., Any]:
    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        with entered(mode), _under_who_looks_on():
            return fn(*args, **kwargs)

    return call


@contextlib.contextmanager
def entered(mode: EmulatedDevice) -> Iterator[None]:
    """Enter the emulated device unless it is active already."""
    if any(active is mode for active in _function_modes()):  # type: ignore[no-untyped-call]
        yield
        return
    with torch._C._EnableTorchFunction(), mode:
        yield


@contextlib.contextmanager
def tracing(mode: EmulatedDevice) -> Iterator[None]:
    """Leave the emulated device, and make torch.compile's tracer see every tensor on cuda:0.

    Meanwhile tensors report their real dispatch keys (CPU), because torch compares them with the keys that
    its C++ code reads.
    """
    from torch._dynamo.variables.tensor import TensorVariable

    def answer(value: Any) -> Callable[[Any, Any], Any]:
        return lambda variable, tx: type(variable).build(tx, value)

    said = {"method_attr_is_cuda": answer(True), "method_attr_device": answer(CUDA)}
    stock = {name: getattr(TensorVariable, name) for name in said}
    keys: Any = torch._C._dispatch_keys
    mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]
    torch._C._dispatch_keys = getattr(keys, "__wrapped__", keys)
    for name, method in said.items():
        setattr(TensorVariable, name, method)
    try:
        yield
    finally:
        torch._C._dispatch_keys = keys
        for name, method in stock.items():
            setattr(TensorVariable, name, method)
        mode.__enter__()  # type: ignore[no-untyped-call]
