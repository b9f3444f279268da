"""Extensions compiled against torch's own headers, which are real pybind11 modules.

Their C++ sees tensors on cuda:0 (cpp/full/bridge.cpp), while Python sees CPU tensors. Arguments and results
are exchanged at every call and share memory.
"""

import ctypes
import importlib.machinery
import importlib.util
import os
from collections.abc import Callable
from types import BuiltinFunctionType, ModuleType
from typing import Any

import torch

from . import c_abi, device, host_tensors, nested
from .c_abi import EXTENSION_MODULE as MODULE


class Bridge:
    """Exchange of tensors between Python and C++; the first extension's bridge serves all extensions."""

    def __init__(self, path: str) -> None:
        # PyDLL holds the GIL, because the bridge takes and returns Python objects.
        self._c = ctypes.PyDLL(path, mode=os.RTLD_NOW | os.RTLD_DEEPBIND)
        c_abi.declare(self._c, c_abi.BRIDGE)
        self._c.kw_torch_install()

    def run(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a C++ function with cuda:0 tensors for device tensors, and exchange its results back."""
        given: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        with torch._C.DisableTorchFunction():
            lent = nested.each(args, lambda tensor: self._lend(tensor, given))
            named = nested.each(kwargs, lambda tensor: self._lend(tensor, given))
            before = self._c.kw_torch_intercept(1)
            try:
                answer = function(*lent, **named)
            finally:
                self._c.kw_torch_intercept(before)
            return nested.each(answer, lambda tensor: self._take(tensor, given))

    def _lend(
        self, tensor: torch.Tensor, given: dict[int, tuple[torch.Tensor, torch.Tensor]]
    ) -> torch.Tensor:
        if host_tensors.on_host(tensor):
            return tensor
        device.note(tensor)
        shown: torch.Tensor = self._c.kw_torch_on_device(tensor)
        given[id(shown)] = shown, tensor
        return shown

    def _take(
        self, tensor: torch.Tensor, given: dict[int, tuple[torch.Tensor, torch.Tensor]]
    ) -> torch.Tensor:
        if id(tensor) in given:
            return given[id(tensor)][1]
        taken: torch.Tensor = self._c.kw_torch_on_host(tensor)
        if taken.layout is torch.strided:
            state = self._c.kw_torch_uninitialised(taken.untyped_storage().data_ptr())
            # An integer tensor is skipped here, because -1 written by an operator looks like fresh memory.
            if state == 1 or (state == 2 and taken.is_floating_point()):
                device.note_uninitialised(taken)
        return taken


_bridge: list[Bridge] = []


def is_native(library: ctypes.CDLL) -> bool:
    """Return True if the loaded extension was compiled against torch's own headers."""
    return hasattr(library, "kw_torch_install")


def module(name: str, path: str) -> ModuleType:
    """Import the extension's module, with functions and methods that exchange tensors.

    Raise ImportError if the extension defines no module, and whatever the module's body raises.
    """
    if not _bridge:
        _bridge.append(Bridge(path))
        device.run_own_operators(_bridge[0].run)
    loader = importlib.machinery.ExtensionFileLoader(MODULE, path)
    spec = importlib.util.spec_from_file_location(MODULE, path, loader=loader)
    assert spec is not None
    made = _bridge[0].run(importlib.util.module_from_spec, (spec,), {})
    _bridge[0].run(loader.exec_module, (made,), {})
    _exchange(made)
    made.__name__ = name
    return made  # type: ignore[no-any-return]


def _exchange(owner: Any) -> None:
    """Wrap everything in `owner` that C++ defines and Python can call, so that it exchanges tensors."""
    for name, value in list(vars(owner).items()):
        if _is_ours(value):
            _exchange(value)
        elif isinstance(value, staticmethod):
            setattr(owner, name, staticmethod(_exchanging(value.__func__)))
        elif isinstance(value, BuiltinFunctionType):
            setattr(owner, name, _exchanging(value))
        elif isinstance(getattr(value, "__func__", None), BuiltinFunctionType):
            setattr(owner, name, _exchanging(value.__func__))


def _is_ours(value: Any) -> bool:
    """Return True for a class or submodule that the extension itself defines."""
    if isinstance(value, type):
        return value.__module__ == MODULE
    return isinstance(value, ModuleType) and value.__name__.startswith(f"{MODULE}.")


def _exchanging(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return _bridge[0].run(function, args, kwargs)

    call.__name__ = call.__qualname__ = function.__name__
    call.__doc__ = function.__doc__
    # torch.compile must not trace the wrapper, as it does not trace the function.
    call._torchdynamo_disable = True  # type: ignore[attr-defined]
    return call
