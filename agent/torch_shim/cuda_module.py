"""Replacements for the parts of `torch.cuda` that code calls around kernels, for one emulated device."""

import contextlib
import functools
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, Self

import torch

from . import c_abi, host_tensors
from .runtime import Runtime

PROPERTIES = SimpleNamespace(
    name="Emulated CUDA device (sm_90)",
    major=c_abi.COMPUTE_MAJOR,
    minor=c_abi.COMPUTE_MINOR,
    total_memory=c_abi.GLOBAL_MEMORY,
    multi_processor_count=c_abi.MULTIPROCESSORS,
    warp_size=c_abi.WARP_SIZE,
    max_threads_per_block=c_abi.MAX_THREADS,
    max_threads_per_multi_processor=c_abi.THREADS_PER_MULTIPROCESSOR,
    regs_per_multiprocessor=c_abi.REGISTERS_PER_MULTIPROCESSOR,
    shared_memory_per_block=c_abi.DEFAULT_SHARED_LIMIT,
    shared_memory_per_block_optin=c_abi.OPT_IN_SHARED_LIMIT,
    shared_memory_per_multiprocessor=c_abi.SHARED_PER_MULTIPROCESSOR,
    L2_cache_size=c_abi.L2_CACHE_BYTES,
    is_integrated=0,
    is_multi_gpu_board=0,
)


_runtime: list[Runtime] = []


def patch(runtime: Runtime) -> None:
    """Replace the functions of `torch.cuda`; the emulator is synchronous, so waiting is free."""
    _runtime[:] = [runtime]
    for name, value in _answers().items():
        setattr(torch.cuda, name, value)
    for kind in (Stream, Event):
        setattr(torch.cuda, kind.__name__, kind)
    _show_storage_on_device()
    # torch's own record_stream accepts only its own stream class, whichever mode is active.
    torch.Tensor.record_stream = lambda self, stream: None  # type: ignore[assignment,method-assign]


def _synchronize(device: Any = None) -> None:
    _runtime[0].synchronize()


def _show_storage_on_device() -> None:
    """Make storages and dispatch keys of device tensors look as they do on a GPU."""
    storage: Any = torch.UntypedStorage
    place, keys = storage.device, torch._C._dispatch_keys

    def device(self: torch.UntypedStorage) -> torch.device:
        real: torch.device = place.__get__(self)
        is_held = _runtime[0].tells_host and real.type == "cpu" and _runtime[0].holds(self.data_ptr())
        return host_tensors.CUDA if is_held else real

    def clone(self: torch.UntypedStorage) -> torch.UntypedStorage:
        with torch._C.DisableTorchFunction():
            return torch.empty(0, dtype=torch.uint8).set_(self).clone().untyped_storage()

    @functools.wraps(keys)
    def dispatch_keys(tensor: torch.Tensor) -> Any:
        found = keys(tensor)
        if host_tensors.on_host(tensor) or not found.has(torch._C.DispatchKey.CPU):
            return found
        shown = found.remove(torch._C.DispatchKey.CPU).remove(torch._C.DispatchKey.AutogradCPU)
        return shown.add(torch._C.DispatchKey.CUDA).add(torch._C.DispatchKey.AutogradCUDA)

    storage.device, storage.clone = property(device), clone
    torch._C._dispatch_keys = dispatch_keys


_most_allocated = [0]
_ALLOCATION = 512
_SEGMENT = 2 << 20


def _allocated(device: Any = None) -> int:
    """Return the bytes in use, rounded up to the unit of torch's allocator."""
    now = -(-_runtime[0].allocated() // _ALLOCATION) * _ALLOCATION
    _most_allocated[0] = max(_most_allocated[0], now)
    return now


def _most(device: Any = None) -> int:
    return max(_allocated(), _most_allocated[0])


def _reserved(device: Any = None) -> int:
    return -(-_most() // _SEGMENT) * _SEGMENT


def _forget_most(device: Any = None) -> None:
    _most_allocated[0] = _allocated()


class Stream:
    """Replacement for torch.cuda.Stream; the work of all streams runs in the order of submission."""

    device_index = 0

    def __init__(self, *args: Any, handle: int | None = None, **kwargs: Any) -> None:
        self.device = torch.device("cuda", 0)
        self.cuda_stream = _runtime[0].new_stream() if handle is None else handle
        self._before: list[int] = []

    def __enter__(self) -> Self:
        self._before.append(_runtime[0].stream())
        _runtime[0].set_stream(self.cuda_stream)
        return self

    def __exit__(self, *args: object) -> None:
        _runtime[0].set_stream(self._before.pop())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.cuda_stream == self.cuda_stream

    def __hash__(self) -> int:
        return hash(self.cuda_stream)

    def synchronize(self) -> None:
        _runtime[0].wait_for_stream(self.cuda_stream)
        _runtime[0].raise_pending()

    def query(self) -> bool:
        _runtime[0].wait_for_stream(self.cuda_stream)
        return True

    def wait_stream(self, other: Any) -> None:
        self.wait_event(other.record_event())

    def wait_event(self, event: Any) -> None:
        _runtime[0].wait_for_event(self.cuda_stream, event.cuda_event)

    def record_event(self, event: Any = None) -> Any:
        event = event or Event()
        event.record(self)
        return event


class Event:
    """Replacement for torch.cuda.Event; its times are measured on the CPU and say nothing about a GPU."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._at = 0.0
        self.cuda_event = _runtime[0].new_event()

    def record(self, stream: Any = None) -> None:
        self._at = time.perf_counter()
        handle = _runtime[0].stream() if stream is None else stream.cuda_stream
        _runtime[0].record_event(self.cuda_event, handle)

    def wait(self, stream: Any = None) -> None:
        handle = _runtime[0].stream() if stream is None else stream.cuda_stream
        _runtime[0].wait_for_event(handle, self.cuda_event)

    def query(self) -> bool:
        self.synchronize()
        return True

    def synchronize(self) -> None:
        _runtime[0].wait_for_event_on_host(self.cuda_event)
        _runtime[0].raise_pending()

    def elapsed_time(self, end: "Event") -> float:
        return (end._at - self._at) * 1e3


def _stream(stream: Stream | None) -> contextlib.AbstractContextManager[Any]:
    return contextlib.nullcontext() if stream is None else stream


def _set_stream(stream: Stream | None) -> None:
    if stream is not None:
        _runtime[0].set_stream(stream.cuda_stream)


def _answers() -> dict[str, Any]:
    def answer(value: Any) -> Any:
        return lambda *args, **kwargs: value

    @contextlib.contextmanager
    def scope(*args: Any, **kwargs: Any) -> Iterator[None]:
        yield

    ignored = (
        "set_device", "empty_cache", "init", "manual_seed", "manual_seed_all", "ipc_collect",
        "set_per_process_memory_fraction", "_lazy_init",
    )  # fmt: skip
    return {
        **{name: answer(None) for name in ignored},
        "current_device": answer(0),
        "memory_allocated": _allocated,
        "max_memory_allocated": _most,
        "memory_reserved": _reserved,
        "max_memory_reserved": _reserved,
        "reset_peak_memory_stats": _forget_most,
        "synchronize": _synchronize,
        "is_available": answer(True),
        "is_initialized": answer(True),
        "is_bf16_supported": answer(True),
        "device_count": answer(1),
        "current_stream": lambda device=None: Stream(handle=_runtime[0].stream()),
        "default_stream": lambda device=None: Stream(handle=0),
        "set_stream": _set_stream,
        "get_device_name": answer(PROPERTIES.name),
        "get_device_capability": answer((PROPERTIES.major, PROPERTIES.minor)),
        "get_device_properties": answer(PROPERTIES),
        "mem_get_info": answer((PROPERTIES.total_memory, PROPERTIES.total_memory)),
        "get_rng_state": lambda device=None: torch.get_rng_state(),
        "set_rng_state": lambda state, device=None: torch.set_rng_state(state),
        "device": scope,
        "stream": _stream,
    }
