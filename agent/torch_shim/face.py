"""Functions of this package for the worker, which first installs the emulated device and then uses it."""

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
    """Patch torch for the rest of this process. Call once, in the thread that will run the candidate's code.

    `build` gets the arguments of one load_inline call as a dict and answers `{"library": path}` or
    `{"error": text}`. With `record`, all operations on device memory are recorded from now on. Raise
    RuntimeError if called twice.
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
    """Give torch the version strings of a CUDA build, so that they do not reveal the emulator."""
    torch.version.cuda = "13.0"
    release = str(torch.__version__).partition("+")[0]
    torch.__version__ = torch.version.__version__ = type(torch.__version__)(f"{release}+cu130")


def build_before(stock: Callable[..., Any], build: BuildFunction) -> None:
    """Make load_inline on a real GPU ask `build` first, with the arguments and answers of `install`'s build.

    torch's own load_inline (`stock`) runs if `build` answers neither a library nor an error. torch is not
    changed otherwise.
    """
    inline.patch_before(stock, build)


def given(what: str, load: Callable[[], Any]) -> Any:
    """Return the result of `load`, and record that its tensors hold bytes the judge handed in as `what`."""
    return _recorders[0].given(what, load) if _recorders else load()


def watch_file(name: str) -> None:
    """Record for each operator which line of file `name` called it."""
    watched.add(name)


def on_device(model: Any) -> Any:
    """Return the model with its parameters and buffers on the device, as `cuda()` would.

    Tensors that load_state_dict is going to fill stay unwritten until then. Their previous values would
    otherwise count as host data that takes part in the result.
    """
    names = model.state_dict(keep_vars=True)
    filled = {id(tensor) for tensor in names.values()}

    def move(tensor: torch.Tensor) -> torch.Tensor:
        return host_tensors.blank(tensor) if id(tensor) in filled else tensor.cuda()

    return model._apply(move)


def record(outputs: Any) -> str | None:
    """End a call with `outputs`, and return its part of the record, or None if nothing is recorded."""
    return _recorders[0].take(outputs) if _recorders else None


def end_record() -> None:
    """Stop recording before calls that are not replayed, so that their memory is reused."""
    if _recorders:
        _runtime().end_record()
        _recorders.pop().__exit__(None, None, None)  # type: ignore[no-untyped-call]


def lock() -> None:
    """Lock the emulator's switches: any other code that uses them from now on causes a finding."""
    _runtime().lock()


def tell_running(path: str) -> None:
    """Keep the line and name of the running kernel in the file at `path` from now on."""
    _runtime().tell_running(path)


def launches() -> int:
    """Return the number of kernel launches so far."""
    return _runtime().launches()


def kernels() -> list[dict[str, Any]]:
    """Return the distinct kernels launched so far, each with the maximum resources of its launches."""
    return _runtime().kernels()


def findings() -> list[dict[str, Any]]:
    """Return the emulator's findings so far, oldest first."""
    return _runtime().findings()


def check(on: bool, conditions: Any = None) -> None:
    """Turn checks of bounds, races and uninitialised reads on or off for the following launches.

    torch's current stream becomes one of two side streams, so that launches on CUDA's default stream are
    detected. `conditions` has the fields of kw_draw (contents of fresh memory, order of threads) and the
    number of the side stream.
    """
    _runtime().check(on, conditions)


def check_outputs(outputs: Any) -> None:
    """Add findings for unwritten elements of the tensors in `outputs`."""
    with torch._C.DisableTorchFunction():
        _runtime().check_outputs(outputs)


def run_at_real_shapes(model: Any, command: dict[str, Any]) -> dict[str, Any]:
    """Run the model as `real_shapes.run` does; nothing can be computed in this process afterwards."""
    end_record()
    return real_shapes.run(_runtime(), model, command)


def without_blocks() -> AbstractContextManager[Any]:
    """Return a context in which only host code runs; nothing can be computed in this process afterwards."""
    return real_shapes.without_blocks(_runtime())


def tracing() -> AbstractContextManager[None]:
    """Return a context for a call that torch.compile traces."""
    return custom_operators.tracing(_installed[0][1])


def entered() -> AbstractContextManager[None]:
    """Return a context that enters the emulated device, for code that torch runs outside it."""
    return custom_operators.entered(_installed[0][1])


def synchronize() -> None:
    """End a call and wait for the device; raise RuntimeError with CUDA's message if an error is pending."""
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
