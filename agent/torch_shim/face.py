"""The functions of this package, for the worker: install the emulated device, then ask it."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from . import cuda_module, custom_operators, device, host_tensors, inline, real_shapes
from .inline import BuildFunction
from .recording import Recorder, watched
from .runtime import Runtime

_installed: list[tuple[Runtime, device.EmulatedDevice]] = []
_recorders: list[Recorder] = []


def install(runtime_library: str, build: BuildFunction, workers: int = 2, *, record: bool = False) -> None:
    """Patches torch for the rest of this process; call it once, in the thread that will run the code.

    `build` gets the arguments of one load_inline call as a dict and answers `{"library": path}` or
    `{"error": text}`. `record`: everything that is done to device memory is noted from here on.
    """
    if _installed:
        raise RuntimeError("the emulated device is installed already")
    runtime = Runtime(runtime_library, workers)
    runtime.serve_torch()
    device.use(runtime)
    cuda_module.patch(runtime)
    inline.patch(build)
    _name_for_cuda()
    mode = device.EmulatedDevice()
    custom_operators.patch(mode)
    mode.__enter__()  # type: ignore[no-untyped-call]
    _installed.append((runtime, mode))
    if record:
        runtime.record()
        _recorders.append(Recorder(runtime))
        _recorders[0].__enter__()  # type: ignore[no-untyped-call]


def _name_for_cuda() -> None:
    """torch says of itself what a build for CUDA says: its name does not tell where the candidate runs."""
    torch.version.cuda = "13.0"
    release = str(torch.__version__).partition("+")[0]
    torch.__version__ = torch.version.__version__ = type(torch.__version__)(f"{release}+cu130")


def build_before(stock: Callable[..., Any], build: BuildFunction) -> None:
    """For a real GPU: load_inline asks `build` first, which answers as that of `install` does.

    `stock` runs where it answers neither a library nor an error. Nothing else of torch changes.
    """
    inline.patch_before(stock, build)


def given(what: str, load: Callable[[], Any]) -> Any:
    """What `load` gives; for the record, its tensors hold bytes that the judge handed in as `what`."""
    return _recorders[0].given(what, load) if _recorders else load()


def watch_file(name: str) -> None:
    """The record tells which line of this file asked for an operator."""
    watched.add(name)


def on_device(model: Any) -> Any:
    """The model with its parameters and buffers on the device, as `cuda()` leaves it.

    Those that load_state_dict is going to fill hold nothing until then: what they held is no data of the host
    that takes part in the result.
    """
    names = model.state_dict(keep_vars=True)
    filled = {id(tensor) for tensor in names.values()}

    def move(tensor: torch.Tensor) -> torch.Tensor:
        return host_tensors.blank(tensor) if id(tensor) in filled else tensor.cuda()

    return model._apply(move)


def record(outputs: Any) -> str | None:
    """What was recorded since the call before, which ends with `outputs`; None where nothing is recorded."""
    return _recorders[0].take(outputs) if _recorders else None


def end_record() -> None:
    """For calls that are not repeated: their memory is handed out again, and nothing grows."""
    if _recorders:
        _runtime().end_record()
        _recorders.pop().__exit__(None, None, None)  # type: ignore[no-untyped-call]


def lock() -> None:
    """From here on code that runs in this process cannot throw the emulator's switches without a finding."""
    _runtime().lock()


def tell_running(path: str) -> None:
    """From here on the file holds the line and the name of the kernel that runs."""
    _runtime().tell_running(path)


def launches() -> int:
    """Kernel launches so far."""
    return _runtime().launches()


def kernels() -> list[dict[str, Any]]:
    """The distinct kernels launched so far, each with the most that a launch of it asked for."""
    return _runtime().kernels()


def findings() -> list[dict[str, Any]]:
    """What the emulator found wrong so far, oldest first."""
    return _runtime().findings()


def check(on: bool, conditions: Any = None) -> None:
    """Whether the launches that follow are checked for bounds, races and uninitialised reads.

    From here on torch's current stream is none of CUDA's default ones, so that a launch on those shows.
    `conditions`: what fresh memory holds, in which order threads run, with the fields of kw_draw, and which
    of two streams is the current one.
    """
    _runtime().check(on, conditions)


def check_outputs(outputs: Any) -> None:
    """Notes findings for elements of the tensors in `outputs` that nothing has written."""
    with torch._C.DisableTorchFunction():
        _runtime().check_outputs(outputs)


def run_at_real_shapes(model: Any, command: dict[str, Any]) -> dict[str, Any]:
    """See `real_shapes.run`; nothing can be computed in this process afterwards."""
    end_record()
    return real_shapes.run(_runtime(), model, command)


def without_blocks() -> AbstractContextManager[Any]:
    """Around calls of which the host code alone runs; nothing can be computed in this process afterwards."""
    return real_shapes.without_blocks(_runtime())


def tracing() -> AbstractContextManager[None]:
    """To be around a call that torch.compile traces."""
    return custom_operators.tracing(_installed[0][1])


def entered() -> AbstractContextManager[None]:
    """The emulated device, for code that torch runs where it is not entered."""
    return custom_operators.entered(_installed[0][1])


def synchronize() -> None:
    """End a call: raise RuntimeError with CUDA's words when an error is pending."""
    _runtime().end_call()
    _runtime().synchronize()


def _runtime() -> Runtime:
    if not _installed:
        raise RuntimeError("call install() first")
    return _installed[0][0]


__all__ = [
    "build_before", "check", "check_outputs", "end_record", "entered", "findings", "given", "install",
    "kernels", "launches", "lock", "on_device", "record", "run_at_real_shapes",
    "synchronize", "tell_running", "tracing", "watch_file",
]  # fmt: skip
