"""Loading of built extensions, whose functions become Python functions."""

import atexit
import ctypes
import os
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from . import c_abi, device, native, operators
from .abi import EXCEPTIONS
from .c_abi import CHost, CValue, Status
from .values import Encoder, Tensors, decode

_SHOWN = 300


class Extension:
    """Loaded library of an extension; kept until the process ends, because C++ may hold pointers into it."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._tensors = Tensors()
        self._answer: Encoder | None = None
        self._host = CHost(
            c_abi.ABI_VERSION,
            c_abi.CHost_CALL(self._call),
            c_abi.CHost_RETAIN(self._tensors.retain),
            c_abi.CHost_RELEASE(self._tensors.release),
        )
        c_abi.declare(library, c_abi.EXTENSION)
        self._library = library
        opened = CValue()
        status = self._library.kw_open(ctypes.byref(self._host), ctypes.byref(opened))
        text = decode(opened, self._tensors)
        if status != Status.OK:
            raise ImportError(text)
        atexit.register(self._library.kw_close)
        records = [record.split("\x1f") for record in text.split("\x1e")[:-1]]
        self.functions = [(name, signature, doc) for name, signature, doc in records]

    def invoke(self, index: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, Any]:
        """Call one function and return its status and result; the result of an error is its text."""
        encoder = Encoder(self._tensors)
        result = CValue()
        names = (ctypes.c_char_p * max(1, len(kwargs)))(*(name.encode() for name in kwargs))
        with torch._C.DisableTorchFunction():
            values = encoder.array([*args, *kwargs.values()])
            count = len(args) + len(kwargs)
            try:
                status = self._library.kw_invoke(
                    index, values, count, names, len(kwargs), ctypes.byref(result)
                )
                answer = None if status == Status.MISMATCH else decode(result, self._tensors)
            finally:
                for handle in encoder.lent:
                    self._tensors.release(handle)
                self._library.kw_forget()
        return status, answer

    def _call(self, name: bytes, arguments: Any, count: int, result: Any) -> int:
        """Run a tensor operation that C++ requests; return 1 and the text of the exception on failure."""
        # The result points into the encoder, which must outlive the return. C++ has read the previous result.
        self._answer = encoder = Encoder(self._tensors)
        try:
            given = [decode(arguments[i], self._tensors) for i in range(count)]
            result[0] = encoder.value(operators.call(name.decode(), given))
            return 0
        except Exception as error:  # noqa: BLE001 - nothing may unwind through C++ frames
            text = str(error) or traceback.format_exception_only(error)[-1].strip()
            result[0] = encoder.value(text)
            return 1


def opened(path: str) -> ctypes.CDLL:
    """Load the library. Raise OSError if the loader rejects it."""
    # A CUDA build of torch brings the real libcudart into the process. On the emulator the extension must
    # find CUDA's API in the runtime it is linked to, before the global symbols. On a GPU the extension must
    # use the global symbols, because some of them are the judge's own replacements of CUDA functions.
    deep = os.RTLD_DEEPBIND if device.is_emulated() else 0
    return ctypes.CDLL(path, mode=os.RTLD_NOW | deep)


def module(name: str, path: str) -> ModuleType:
    """Return a module with the functions that the extension defines.

    Raise ImportError if the library cannot be loaded or its module body fails.
    """
    try:
        library = opened(path)
    except OSError as error:
        raise ImportError(str(error)) from error
    if native.is_native(library):
        return native.module(name, path)
    extension = Extension(library)
    made = ModuleType(name)
    made.__file__ = path
    overloads: dict[str, list[int]] = {}
    for index, (function, _, _) in enumerate(extension.functions):
        overloads.setdefault(function, []).append(index)
    for function, indices in overloads.items():
        setattr(made, function, _bound(extension, function, indices))
    return made


def _bound(extension: Extension, name: str, indices: list[int]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        for index in indices:
            status, answer = extension.invoke(index, args, kwargs)
            if status == Status.OK:
                return answer
            if status != Status.MISMATCH:
                raise EXCEPTIONS[status](answer)
        raise TypeError(_mismatch(name, [extension.functions[i][1] for i in indices], args, kwargs))

    call.__name__ = call.__qualname__ = name
    # torch.compile must not trace the function, as with functions of pybind11.
    call._torchdynamo_disable = True  # type: ignore[attr-defined]
    signatures = "\n".join(f"{name}{extension.functions[i][1]}" for i in indices)
    call.__doc__ = f"{signatures}\n\n{extension.functions[indices[0]][2]}"
    return call


def _mismatch(name: str, signatures: list[str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return pybind11's error message, with shapes and dtypes of tensors instead of their values."""
    lines = [
        f"{name}(): incompatible function arguments. The following argument types are supported:",
        *(f"    {number}. {signature}" for number, signature in enumerate(signatures, 1)),
        "",
        "Invoked with: " + ", ".join(_shown(arg) for arg in args),
    ]
    if kwargs:
        lines[-1] += "; kwargs: " + ", ".join(f"{key}={_shown(value)}" for key, value in kwargs.items())
    return "\n".join(lines)


def _shown(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"tensor(shape={list(value.shape)}, dtype={value.dtype})"
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
