"""Record of all operations on device memory, which the judge can replay without this process's code.

The record has one JSON object per line. The runtime writes `allocate`, `launch`, `move`, `fill` and `write`
(literal bytes from the host). This module adds

    {"do": "given", "what": stem, "index": i, "to": address, "bytes": n}   bytes that the judge handed in
    {"do": "operator", "name", "overload", "arguments", "keywords", "results", "line"}   one ATen operator
    {"do": "outputs", "tensors": [...]}   tensors that forward returned, in the order of the result's leaves

A tensor is `{"tensor": [address, dtype, shape, strides]}`, or `{"literal": hex, "dtype", "shape"}` if it
lies outside device memory (`null` for a large tensor). Operators that only make a view do not change memory
and are left out. Results of operators are moved into device memory, so that their addresses are valid.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from . import custom_operators, nested
from .c_abi import LARGEST_LITERAL
from .runtime import Runtime

_FRAMES = 40
watched: set[str] = set()
"""Names of files; a recorded operator carries the line of such a file that called it."""
_METADATA = {torch.ops.aten.set_, torch.ops.aten.resize_, torch.ops.aten.detach_}


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Dispatch mode that records every operator of its thread between the judge's handing in data and the end
    of a call."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._runtime = runtime

    def given(self, what: str, load: Callable[[], Any]) -> Any:
        """Return the result of `load`, and record that its tensors, in order, hold the judge's own bytes."""
        self._runtime.recording = self._runtime.loading = True
        try:
            value = load()
        finally:
            self._runtime.loading = False
        with torch._C.DisableTorchFunction():
            for index, tensor in enumerate(nested.tensors(value)):
                size = tensor.numel() * tensor.element_size()
                place = {"to": tensor.data_ptr(), "bytes": size}
                self._note({"do": "given", "what": what, "index": index, **place})
        return value

    def take(self, outputs: Any) -> str:
        """End a call with `outputs`, and return what was recorded since the previous call.

        Recording pauses until the judge hands in data again.
        """
        with torch._C.DisableTorchFunction():
            self._runtime.settle()
            self._note({"do": "outputs", "tensors": [self._described(t) for t in nested.tensors(outputs)]})
            self._runtime.recording = False
            return self._runtime.recorded()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if not self._runtime.recording:
            return func(*args, **kwargs)
        with torch._C.DisableTorchFunction():
            return self._recorded(func, args, kwargs)

    def _recorded(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        writes = any(a.alias_info is not None and a.alias_info.is_write for a in func._schema.arguments)
        if func.overloadpacket in _METADATA:
            return func(*args, **kwargs)
        if writes and not self._runtime.loading:
            self._runtime.settle()
        taken = {0, *(_storage(tensor) for tensor in nested.tensors([args, kwargs]))}
        given = [self._described(arg) for arg in args]
        keywords = {name: self._described(value) for name, value in kwargs.items()}
        with custom_operators.shown_to(self) as shown:
            result = func(*args, **kwargs)
        if shown.entered and self._is_placed(result, taken):
            return result
        if self._runtime.loading:
            return self._moved(result, taken)
        if not writes:
            if taken.issuperset(map(_storage, nested.tensors(result))):
                return result
            self._runtime.settle()
        result = self._moved(result, taken)
        made = nested.tensors(result)
        name, _, overload = str(func).removeprefix("aten.").partition(".")
        self._note(
            {
                "do": "operator", "name": name, "overload": overload,
                "arguments": given, "keywords": keywords,
                "results": [None if _storage(t) in taken else self._described(t) for t in made],
                "line": _line(),
            }
        )  # fmt: skip
        return result

    def _is_placed(self, result: Any, taken: set[int]) -> bool:
        """Return True if all result tensors lie in device memory or in the arguments' storages (`taken`)."""
        made = nested.tensors(result)
        return all(_storage(t) in taken or self._runtime.owns(t.data_ptr()) for t in made)

    def _moved(self, result: Any, taken: set[int]) -> Any:
        if isinstance(result, torch.Tensor):
            if _storage(result) in taken or self._runtime.owns(result.data_ptr()):
                return result
            moved = self._runtime.empty(result)
            return moved.copy_(result) if moved.numel() else result
        if isinstance(result, (list, tuple)):
            return type(result)([self._moved(item, taken) for item in result])
        return result

    def _described(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, (list, tuple)):
            return [self._described(item) for item in value]
        for kind in (torch.dtype, torch.memory_format, torch.layout, torch.device):
            if isinstance(value, kind):
                return {kind.__name__: str(value).removeprefix("torch.")}
        return {"other": type(value).__name__}

    def _tensor(self, tensor: torch.Tensor) -> dict[str, Any]:
        dtype, shape = str(tensor.dtype).removeprefix("torch."), list(tensor.shape)
        if tensor.layout is not torch.strided or tensor.device.type != "cpu":
            return {"other": "a tensor that is not strided memory"}
        if self._runtime.owns(tensor.data_ptr()):
            return {"tensor": [tensor.data_ptr(), dtype, shape, list(tensor.stride())]}
        small = tensor.numel() * tensor.element_size() <= LARGEST_LITERAL
        flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8) if small else None
        return {
            "literal": None if flat is None else bytes(flat.numpy()).hex(),
            "dtype": dtype,
            "shape": shape,
        }

    def _note(self, event: dict[str, Any]) -> None:
        self._runtime.record_note(json.dumps(event))


def _storage(tensor: torch.Tensor) -> int:
    """Return the address of the tensor's storage, or 0 if the tensor is not a strided CPU tensor."""
    strided = tensor.layout is torch.strided and tensor.device.type == "cpu"
    return tensor.untyped_storage().data_ptr() if strided else 0


def _line() -> int | None:
    """Return the line of a watched file that called the current operator, or None."""
    frame = sys._getframe(1)
    for _ in range(_FRAMES):
        if frame.f_code.co_filename in watched:
            return frame.f_lineno
        if frame.f_back is None:
            break
        frame = frame.f_back
    return None
