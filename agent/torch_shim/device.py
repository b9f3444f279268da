"""Emulation of `cuda:0` on the CPU for Python code; `host_tensors` distinguishes device and host tensors.

Nothing in this module is a security boundary.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _device as default_device

from . import host_tensors, nested
from .host_tensors import CPU, CUDA
from .runtime import Runtime

_FACTORIES: set[Any] = {
    torch.empty, torch.zeros, torch.ones, torch.full, torch.empty_like, torch.zeros_like, torch.ones_like,
    torch.full_like, torch.empty_strided, torch.rand, torch.randn, torch.arange, torch.linspace, torch.eye,
    torch.rand_like, torch.randn_like, torch.randint, torch.tensor, torch.Tensor.new_empty,
    torch.Tensor.new_zeros, torch.Tensor.new_ones, torch.Tensor.new_full,
}  # fmt: skip
_UNINITIALISED: set[Any] = {
    torch.empty, torch.empty_like, torch.empty_strided, torch.empty_permuted, torch.Tensor.new_empty,
    torch.Tensor.new_empty_strided,
}  # fmt: skip

_PRODUCTS = {
    "matmul", "rmatmul", "mm", "bmm", "mv", "dot", "vdot", "inner", "addmm", "addmv", "addbmm", "baddbmm",
    "linear", "bilinear", "einsum", "tensordot", "chain_matmul", "multi_dot", "matrix_power",
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
}  # fmt: skip
"""Functions based on a matrix product or convolution, which torch does not support for integers on a GPU."""

_runtime: list[Runtime] = []
_constructors = default_device._device_constructors
_OPERATORS = (torch._ops.OpOverload, torch._ops.OpOverloadPacket)
_own_operators: list[Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]] = []


def use(runtime: Runtime) -> None:
    """Set the runtime in whose memory tensors are made; without one, torch decides where tensors are."""
    _runtime[:] = [runtime]
    host_tensors.use(runtime)


def is_emulated() -> bool:
    """Return True if CPU tensors stand for GPU tensors."""
    return bool(_runtime)


def note(tensor: torch.Tensor) -> None:
    """Register a device tensor's memory. Call this before device code gets the tensor's address."""
    if _runtime and not host_tensors.on_host(tensor):
        _runtime[0].note(tensor)


def run_own_operators(run: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]) -> None:
    """Set the function that calls operators registered by extensions, whose C++ must see CUDA tensors."""
    _own_operators[:] = [run]


def note_uninitialised(tensor: torch.Tensor) -> None:
    """Mark device memory that C++ allocated without initialising it, so that outputs in it are checked."""
    _runtime[0].note_uninitialised(tensor)


def own(make: Callable[..., torch.Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    """Make a tensor with `make` on the host or the device; unwritten device memory keeps its fill pattern.

    `device` decides, or else the first argument if it is a tensor. Without both, the tensor is on the host.
    """
    device = kwargs.pop("device", None)
    if not _runtime:
        return make(*args, **kwargs | ({} if device is None else {"device": device}))
    wanted = kwargs.pop("requires_grad", False)
    if kwargs.get("out") is not None or (device is not None and not _is_known(device)):
        return make(*args, **kwargs | {"device": device})
    if _is_for_host(device, args):
        made: torch.Tensor = host_tensors.made_on_host(make, args, kwargs | {"device": "cpu"})
    elif make in _UNINITIALISED:
        made = _runtime[0].uninitialised(make(*args, **kwargs | {"device": "meta"}))
    else:
        filled = make(*host_tensors.to_device(args), **kwargs | {"device": "cpu"})
        made = _runtime[0].empty(filled)
        made.copy_(filled.detach())
    return made.requires_grad_() if wanted else made


def _is_for_host(device: Any, args: tuple[Any, ...]) -> bool:
    if device is None and args and isinstance(args[0], torch.Tensor):
        return host_tensors.on_host(args[0])
    return _runtime[0].tells_host and not names_cuda(device)


def cuda_to_cpu(value: Any) -> Any:
    """Return the CPU for a CUDA device while emulating, and every other value unchanged."""
    if _runtime and isinstance(value, torch.device) and value.type == "cuda":
        return CPU
    return value


def refuse_integer_product(name: str, args: Any) -> None:
    """Raise RuntimeError for an integer product on the device, which torch supports only on the CPU."""
    if not _runtime or name.strip("_") not in _PRODUCTS:
        return
    for tensor in nested.tensors(args):
        if tensor.is_floating_point() or tensor.is_complex() or host_tensors.on_host(tensor):
            continue
        dtype = str(tensor.dtype).removeprefix("torch.")
        shown = {
            "int32": "Int",
            "int64": "Long",
            "int16": "Short",
            "int8": "Char",
            "uint8": "Byte",
            "bool": "Bool",
        }
        raise RuntimeError(f"\"addmm_cuda\" not implemented for '{shown.get(dtype, dtype)}'")


def names_cuda(value: Any) -> bool:
    """Return True if the value names a GPU; an integer is the index of a GPU."""
    if isinstance(value, torch.device):
        return value.type == "cuda"
    if isinstance(value, int):
        return not isinstance(value, bool)
    return isinstance(value, str) and value.split(":")[0] == "cuda"


def _is_known(device: Any) -> bool:
    return names_cuda(device) or (isinstance(device, (str, torch.device)) and torch.device(device) == CPU)


def moved(tensor: torch.Tensor, device: Any) -> torch.Tensor:
    """Return the tensor on the requested device, as a copy if it is elsewhere; None leaves it in place."""
    if device is None or not _runtime:
        return tensor
    there: torch.Tensor = tensor
    if names_cuda(device):
        there = host_tensors.to_device(tensor)
    elif not host_tensors.on_host(tensor):
        # A copy to the host never shares memory with its source.
        there = host_tensors.to_host(tensor.clone())
    return there


def _to(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    asked = [arg for arg in (*args[1:], *kwargs.values()) if not isinstance(arg, bool)]
    devices = [value for value in asked if not isinstance(value, torch.Tensor) and _is_known(value)]
    like = [value for value in asked if isinstance(value, torch.Tensor)]
    device = devices[0] if devices else host_tensors.place_of(like[0]) if like else None
    others = (arg for arg in args[1:] if not isinstance(arg, torch.Tensor))
    args = args[0], *(CPU if names_cuda(arg) else arg for arg in others)
    kwargs = {name: CPU if names_cuda(value) else value for name, value in kwargs.items() if name != "other"}
    if like:
        kwargs["dtype"] = like[0].dtype
    return moved(host_tensors.run(func, args, kwargs), device)


def _type_as(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return _to(_T.to, (args[0], *args[1:], *kwargs.values()), {})


def _cpu(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return moved(args[0], CPU)


def _cuda(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return moved(args[0], CUDA)


def _device(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.device:
    real: torch.device = func(*args, **kwargs)
    return host_tensors.place_of(args[0]) if real.type == "cpu" else real


def _data_ptr(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    note(args[0])
    address: int = func(*args, **kwargs)
    return address


def _numpy(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    forced = kwargs.get("force", False) if func is _T.numpy else False
    if not _runtime or host_tensors.on_host(args[0]) or not _runtime[0].tells_host:
        return func(*args, **kwargs)
    if forced:
        return func(moved(args[0].detach(), CPU).resolve_conj().resolve_neg())
    raise TypeError(
        "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
        "memory first."
    )


def _type(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    asked = [*args[1:], *kwargs.values()]
    if asked and isinstance(asked[0], str):
        return func(args[0], asked[0].replace("torch.cuda.", "torch."), *args[2:])
    answer = func(*args, **kwargs)
    named = isinstance(answer, str) and not host_tensors.on_host(args[0])
    return answer.replace("torch.", "torch.cuda.") if named else answer


_T = torch.Tensor
_HANDLERS: dict[Any, Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]] = {
    _T.device.__get__: _device,
    _T.is_cuda.__get__: lambda func, args, kwargs: not host_tensors.on_host(args[0]),  # type: ignore[attr-defined]
    _T.is_cpu.__get__: lambda func, args, kwargs: host_tensors.on_host(args[0]),  # type: ignore[attr-defined]
    _T.get_device: lambda func, args, kwargs: -1 if host_tensors.on_host(args[0]) else 0,
    _T.cuda: _cuda,
    _T.cpu: _cpu,
    _T.pin_memory: lambda func, args, kwargs: args[0],
    _T.to: _to,
    _T.type_as: _type_as,
    _T.data_ptr: _data_ptr,
    torch.device: lambda func, args, kwargs: func(*args, **kwargs),
    _T.type: _type,
    _T.numpy: _numpy,
    _T.__array__: _numpy,
}


class EmulatedDevice(TorchFunctionMode):
    """Function mode that answers device queries as a GPU would and runs everything on the CPU."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        handler = _HANDLERS.get(func)
        if handler is not None:
            return handler(func, args, kwargs)
        if _own_operators and isinstance(func, _OPERATORS) and not str(func).startswith(("aten.", "prim")):
            return _own_operators[0](func, args, kwargs)
        # torch.set_default_device puts its mode below this mode, where it would affect the calls made here.
        default = default_device.CURRENT_DEVICE
        if default is not None and kwargs.get("device") is None and func in _constructors():
            kwargs["device"] = default
        if func in _FACTORIES:
            kwargs.pop("pin_memory", None)
            return own(func, args, kwargs)
        given = tuple(cuda_to_cpu(arg) for arg in args)
        refuse_integer_product(getattr(func, "__name__", ""), given)
        if names_cuda(kwargs.get("device")):
            return moved(host_tensors.run(func, given, kwargs | {"device": CPU}), CUDA)
        if host_tensors.makes(given, kwargs):
            return host_tensors.made_on_host(func, given, kwargs)
        return host_tensors.run(func, given, kwargs)
