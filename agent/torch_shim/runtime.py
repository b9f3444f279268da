"""Access to the runtime library through ctypes: device memory, CUDA error state, launches and findings."""

import contextlib
import ctypes
import json
import os
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from . import c_abi, nested
from .finding_kinds import FindingKind
from .streams import SIDE_STREAMS, StreamCalls


class Runtime(StreamCalls):
    """The loaded library libkw_runtime; its symbols are global, so that extensions find them."""

    def __init__(self, library: str, workers: int) -> None:
        self._library = library
        self._c = ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
        c_abi.declare(self._c, c_abi.RUNTIME)
        self._c.cudaGetErrorString.restype = ctypes.c_char_p
        self._c.kw_init(workers)
        self._c.cudaMemcpy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        self.recording = False
        self.tells_host = False
        self.loading = False
        self._taken = 0
        self._range = range(0)
        self._tells_unwritten = False
        self._key = 0
        self._fresh: dict[int, int | None] = {}
        self._outputs: list[dict[str, Any]] = []

    def serve_torch(self) -> None:
        """Allocate torch's CPU tensors in device memory from now on, if the allocator's library was built."""
        library = Path(self._library).with_name(c_abi.TORCH_MEMORY)
        if library.exists():
            serving = ctypes.CDLL(str(library))
            c_abi.declare(serving, c_abi.SERVES_TORCH)
            serving.kw_serve_torch()
            self.tells_host = True

    def tell_running(self, path: str) -> None:
        """Keep the line and name of the running kernel in the file at `path` from now on."""
        with self._unlocked():
            self._c.kw_tell_running(path.encode())

    def launches(self) -> int:
        """Return the number of kernel launches so far."""
        return int(self._c.kw_launch_count())

    def findings(self) -> list[dict[str, Any]]:
        """Return the findings, oldest first.

        `line` of a finding is the candidate's line or None. Without a line, `place` and `other` are offsets
        of code in a built library, from which the judge finds the lines.
        """
        needed = self._c.kw_findings(None, 0)
        buffer = ctypes.create_string_buffer(needed + 1)
        self._c.kw_findings(buffer, needed + 1)
        found: list[dict[str, Any]] = json.loads(buffer.value.decode("utf-8", "replace") or "[]")
        for finding in found:
            line = finding.get("line")
            if line is not None and not 0 < line < c_abi.UNLOCATED_LINE:
                finding["line"] = None
        return found + self._outputs

    def kernels(self) -> list[dict[str, Any]]:
        """Return the distinct kernels launched since the last call of `sample`.

        Each has its signature, line, maximum threads of a block and maximum dynamic shared memory (bytes).
        """
        needed = self._c.kw_kernels(None, 0)
        buffer = ctypes.create_string_buffer(needed + 1)
        self._c.kw_kernels(buffer, needed + 1)
        launched: list[dict[str, Any]] = json.loads(buffer.value.decode("utf-8", "replace") or "[]")
        return launched

    def sample(self, numbers: bool, *, host_only: bool = False) -> None:
        """Switch to sampling: memory is reserved, a sample of blocks runs, and only addresses are checked.

        Unwritten memory holds numbers if `numbers` is true, else zeros. With `host_only` no block runs.
        Earlier findings and launched kernels are forgotten.
        """
        self.tells_host = False
        self._outputs.clear()
        mode = c_abi.SAMPLE_NUMBERS if numbers else c_abi.SAMPLE_ZEROS
        with self._unlocked():
            self._c.kw_clear_findings()
            self._c.kw_draw(c_abi.MEMORY_ONES, c_abi.ORDER_FORWARD, 0)
            self._c.kw_sample(c_abi.SAMPLE_HOST_ONLY if host_only else mode)

    def sample_notes(self) -> list[str]:
        """Return notes on the kernels that ran only in part, with the reasons."""
        needed = self._c.kw_sample_notes(None, 0)
        buffer = ctypes.create_string_buffer(needed + 1)
        self._c.kw_sample_notes(buffer, needed + 1)
        return buffer.value.decode("utf-8", "replace").splitlines()

    def lock(self) -> None:
        """Lock the runtime's switches to this object; any other use of them is a finding."""
        self._key = int.from_bytes(os.urandom(8), "little") | 1
        self._c.kw_lock(self._key)

    @contextlib.contextmanager
    def _unlocked(self) -> Iterator[None]:
        self._c.kw_unlock(self._key)
        try:
            yield
        finally:
            if self._key:
                self._c.kw_lock(self._key)

    def check(self, on: bool, conditions: Any = None) -> None:
        """Turn checks of the following launches on or off; extensions must be built with checks.

        torch's current stream becomes a side stream in both cases, so that the stream does not reveal checks.
        `conditions` has the fields of kw_draw, and the number of the side stream.
        """
        # Only the default fill (all ones) proves memory unwritten; torch operators may write the other fills.
        self._tells_unwritten = on and (conditions is None or conditions.memory == c_abi.MEMORY_ONES)
        self.set_stream(SIDE_STREAMS[0 if conditions is None else conditions.stream])
        self._fresh.clear()
        with self._unlocked():
            self._c.kw_call_begins()
            if conditions is None:
                self._c.kw_draw(c_abi.MEMORY_ONES, c_abi.ORDER_FORWARD, 0)
            else:
                self._c.kw_draw(conditions.memory, conditions.order, conditions.seed)
            self._c.kw_check(int(on))

    def record(self) -> None:
        """Start the record of all operations on device memory."""
        first = self._c.kw_alloc(1)
        self._range = range(first, first + c_abi.LARGEST_ARENA)
        with self._unlocked():
            self._c.kw_record(1)
        self.recording = True

    def recorded(self) -> str:
        """Return the lines recorded since the last call of `recorded`."""
        needed = self._c.kw_recorded(None, 0)
        buffer = ctypes.create_string_buffer(needed + 1)
        self._c.kw_recorded(buffer, needed + 1)
        known, self._taken = self._taken, needed
        return buffer.raw[known:needed].decode("utf-8", "replace")

    def end_record(self) -> None:
        """Stop recording."""
        self.recording = False
        with self._unlocked():
            self._c.kw_record(0)

    def record_note(self, line: str) -> None:
        """Add a JSON line to the record that describes an operation of the caller."""
        with self._unlocked():
            self._c.kw_record_note(line.encode())

    def settle(self) -> None:
        """Record the bytes that host code wrote to device memory directly, without a CUDA call."""
        if self.recording:
            self._c.kw_record_settle()

    def owns(self, address: int) -> bool:
        """Return True if the address is in recorded device memory; always False before a record has begun."""
        return address in self._range

    def holds(self, address: int) -> bool:
        """Return True if the address is in the range of device memory, which includes torch's own tensors."""
        return bool(self._c.kw_on_device(address))

    def upload(self, to: torch.Tensor, source: torch.Tensor) -> None:
        """Copy a host tensor to a tensor in device memory with the same shape, strides and dtype."""
        extent = sum((n - 1) * step for n, step in zip(to.shape, to.stride(), strict=True))
        size = (1 + extent) * to.element_size() if to.numel() else 0
        if self.loading:
            ctypes.memmove(to.data_ptr(), source.data_ptr(), size)
        else:
            self._c.cudaMemcpy(to.data_ptr(), source.data_ptr(), size, c_abi.HOST_TO_DEVICE)

    def note(self, tensor: torch.Tensor) -> None:
        """Register a tensor's memory as device memory, with dtype and shape as its name in messages."""
        if tensor.layout is not torch.strided:
            return
        storage = tensor.untyped_storage()
        address, size = storage.data_ptr(), storage.nbytes()
        label = f"{str(tensor.dtype).removeprefix('torch.')} tensor {list(tensor.shape)}"
        if address and self._c.kw_register(address, size, label.encode()):
            # A storage's Python object lives as long as the storage itself.
            weakref.finalize(storage, self._c.kw_unregister, address).atexit = False

    def check_outputs(self, outputs: Any) -> None:
        """Add a finding for every tensor of `outputs` with unwritten elements.

        Only memory allocated uninitialised since checks were turned on is examined. Integer tensors that a
        torch operator wrote in place are skipped, because -1 looks like fresh memory.
        """
        if not self._tells_unwritten:
            return
        self._outputs += [found for tensor in nested.tensors(outputs) if (found := self._unwritten(tensor))]

    def _unwritten(self, tensor: torch.Tensor) -> dict[str, Any] | None:
        address = tensor.untyped_storage().data_ptr() if tensor.layout is torch.strided else 0
        count = tensor.numel()
        extent = 1 + sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
        if address not in self._fresh or count == 0 or extent != count:
            return None
        if not tensor.is_floating_point() and self._fresh[address] != _version(tensor):
            return None
        first = ctypes.c_size_t()
        element = tensor.element_size()
        missing = self._c.kw_unwritten(tensor.data_ptr(), count, element, ctypes.byref(first))
        if not missing:
            return None
        message = (
            f"{missing} of {count} elements of the {str(tensor.dtype).removeprefix('torch.')} output "
            f"{list(tensor.shape)} were never written; the first is {_position(tensor, first.value)}. They "
            "hold whatever was in memory before: check the grid size and the bounds test."
        )
        place = {"kernel": None, "line": None, "block": None, "thread": None, "place": None, "other": None}
        return {
            "kind": FindingKind.UNWRITTEN_OUTPUT,
            "message": message,
            "count": 1,
            "severity": "error",
            **place,
        }

    def end_call(self) -> None:
        """End a call; add a finding for work on other streams that the current stream does not wait for."""
        with self._unlocked():
            self._c.kw_call_ends()

    def allocated(self) -> int:
        """Return the bytes of device memory in use."""
        return int(self._c.kw_allocated())

    def synchronize(self) -> None:
        """Wait for the device, then raise RuntimeError if an error is pending, as `raise_pending` does."""
        self._c.cudaDeviceSynchronize()
        self.raise_pending()

    def raise_pending(self) -> None:
        """Raise RuntimeError with CUDA's message if an error is pending.

        The runtime adds a finding if host code never asked for the error.
        """
        with self._unlocked():
            self._c.kw_host_returned()
        error = self._c.cudaGetLastError()
        if error != 0:
            text = self._c.cudaGetErrorString(error).decode()
            raise RuntimeError(f"CUDA error: {text}")

    def storage(self, size_bytes: int) -> torch.UntypedStorage:
        """Allocate device memory with the fill that kw_draw chose; the memory is freed with the storage.

        Raise RuntimeError if device memory is exhausted.
        """
        address = self._c.kw_alloc(size_bytes)
        if not address:
            raise RuntimeError(f"CUDA out of memory. Tried to allocate {size_bytes} bytes.")
        buffer = (ctypes.c_char * size_bytes).from_address(address)
        weakref.finalize(buffer, self._c.kw_free, address).atexit = False
        self._fresh.pop(address, None)
        return torch.frombuffer(buffer, dtype=torch.uint8).untyped_storage()

    def empty(self, like: torch.Tensor) -> torch.Tensor:
        """Return a tensor in device memory with the shape, strides and dtype of `like`, which may be meta."""
        if like.layout is not torch.strided or like.numel() == 0:
            return torch.empty_like(like, device="cpu")
        extent = 1 + sum((n - 1) * step for n, step in zip(like.shape, like.stride(), strict=True))
        made = torch.empty(0, dtype=like.dtype, device="cpu")
        made.set_(self.storage(extent * like.element_size()), 0, like.shape, like.stride())
        return made

    def uninitialised(self, like: torch.Tensor) -> torch.Tensor:
        """Return a tensor as `empty` does, whose unwritten elements `check_outputs` will report."""
        made = self.empty(like)
        self.note_uninitialised(made)
        return made

    def note_uninitialised(self, tensor: torch.Tensor) -> None:
        """Let `check_outputs` report unwritten elements in this tensor's memory from now on."""
        if self._tells_unwritten and tensor.numel():
            self._fresh[tensor.untyped_storage().data_ptr()] = _version(tensor)


def _version(tensor: torch.Tensor) -> int | None:
    return None if tensor.is_inference() else tensor._version


def _position(tensor: torch.Tensor, offset: int) -> list[int]:
    """Return the index of the element `offset` elements after the first, in a tensor without gaps."""
    index = [0] * tensor.dim()
    strides = tensor.stride()
    for dim in sorted(range(tensor.dim()), key=lambda d: -strides[d]):
        if tensor.shape[dim] > 1:
            index[dim], offset = divmod(offset, strides[dim])
    return index
