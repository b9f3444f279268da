"""The parts of `torch.cuda` that code calls around a kernel, answered for one emulated device."""

import contextlib
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, Self

import torch

from . import c_abi
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
    """Replaces the functions of `torch.cuda`; the emulator is synchronous, so waiting is free."""
    _runtime[:] = [runtime]
    for name, value in _answers().items():
        setattr(torch.cuda, name, value)
    for kind in (Stream, Event):
        setattr(torch.cuda, kind.__name__, kind)
    # torch's own takes a stream of its own kind alone, whichever mode is entered.
    torch.Tensor.record_stream = lambda self, stream: None  # type: ignore[assignment,method-assign]


def _synchronize(device: Any = None) -> None:
    _runtime[0].synchronize()


class Stream:
    """A name for an order of work that the emulator keeps anyway; `cuda_stream` is its handle."""

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
        _synchronize()

    def query(self) -> bool:
        return True

    def wait_stream(self, other: Any) -> None:
        return None

    def wait_event(self, event: Any) -> None:
        return None

    def record_event(self, event: Any = None) -> Any:
        event = event or Event()
        event.record()
        return event


class Event:
    """Its times are the CPU's and say nothing about a GPU."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._at = 0.0

    def record(self, stream: Any = None) -> None:
        self._at = time.perf_counter()

    def wait(self, stream: Any = None) -> None:
        return None

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        _synchronize()

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
        "reset_peak_memory_stats", "set_per_process_memory_fraction", "_lazy_init",
    )  # fmt: skip
    zero = (
        "current_device",
        "memory_allocated",
        "max_memory_allocated",
        "memory_reserved",
        "max_memory_reserved",
    )
    return {
        **{name: answer(None) for name in ignored},
        **{name: answer(0) for name in zero},
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
