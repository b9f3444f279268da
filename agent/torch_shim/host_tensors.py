"""Distinction of device and host tensors by the location of their memory, and copies between the two.

Both kinds are CPU tensors of torch. A host tensor lies outside emulated device memory, so a kernel that gets
its address is detected. Results of computations on host tensors alone are host tensors, and are not part of
the record of device memory. Tensors without elements count as device tensors. If torch's headers are missing,
the emulator cannot provide torch's allocator, and every tensor counts as a device tensor.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from . import nested
from .runtime import Runtime

CUDA = torch.device("cuda", 0)
CPU = torch.device("cpu")
_CROSSING = frozenset(
    {
        "__getitem__", "__setitem__", "__set__", "index", "index_put", "index_put_", "copy_", "set_",
        "type_as", "view_as", "expand_as", "reshape_as", "result_type", "can_cast", "is_same_size",
        "is_set_to", "broadcast_tensors", "_has_compatible_shallow_copy_type", "_index_put_impl_",
    }
)  # fmt: skip
"""Operators that accept host and device tensors together. Other operators accept a host tensor beside device
tensors only if it has no dimensions."""
_runtime: list[Runtime] = []


def use(runtime: Runtime) -> None:
    """Set the runtime whose memory is device memory."""
    _runtime[:] = [runtime]


def on_host(tensor: torch.Tensor) -> bool:
    """Return True for a host tensor, which a kernel on a GPU could not read."""
    if not _runtime or tensor.layout is not torch.strided or not _runtime[0].tells_host:
        return False
    with torch._C.DisableTorchFunction():
        if tensor.device.type != "cpu":
            return False
        address = tensor.untyped_storage().data_ptr()
    return address != 0 and not _runtime[0].holds(address)


def place_of(tensor: torch.Tensor) -> torch.device:
    """Return the device that the tensor reports."""
    return CPU if on_host(tensor) else CUDA


def to_device(value: Any) -> Any:
    """Return the value with host tensors copied to the device."""
    return nested.each(value, _uploaded)


def to_host(value: Any) -> Any:
    """Return the value with device tensors copied to the host, except those that require a gradient."""
    return nested.each(value, _downloaded)


def blank(tensor: torch.Tensor) -> torch.Tensor:
    """Return an unwritten device tensor with the form of a host tensor; return device tensors unchanged."""
    if not on_host(tensor):
        return tensor
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        return _runtime[0].empty(tensor.detach())


def makes(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return True if a function's result would be on the host because the arguments hold no tensor."""
    return bool(_runtime) and _runtime[0].tells_host and next(nested.tensors((args, kwargs)), None) is None


def made_on_host(make: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call `make`, without tensors or with host tensors, and return its result in host memory."""
    with _disable_current_modes():
        return to_host(make(*args, **kwargs))


def run(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call `func` on the host if all its tensors are host tensors, and on the device otherwise.

    With both kinds of tensors `func` runs on the device, unless it writes to a host tensor. Raise
    RuntimeError with torch's message if `func` does not accept both kinds together.
    """
    tensors = list(nested.tensors((args, kwargs)))
    hosts = [tensor for tensor in tensors if on_host(tensor)]
    if not hosts:
        return func(*args, **kwargs)
    if len(hosts) == len(tensors):
        return made_on_host(func, args, kwargs)
    name = str(getattr(func, "__name__", "")).partition(".")[0]
    if name not in _CROSSING and any(tensor.dim() for tensor in hosts):
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! "
            f"(in {name})"
        )
    if name == "__set__" or (tensors[0] is hosts[0] and _writes(name)):
        with _disable_current_modes():
            return func(*args, **kwargs)
    return func(*to_device(args), **to_device(kwargs))


def _writes(name: str) -> bool:
    return name == "__setitem__" or (name.endswith("_") and not name.endswith("__"))


def _uploaded(tensor: torch.Tensor) -> torch.Tensor:
    if not on_host(tensor):
        return tensor
    with torch._C.DisableTorchFunction():
        if tensor.requires_grad and torch.is_grad_enabled():
            return tensor.clone()
        with _disable_current_modes():
            made = _runtime[0].empty(tensor.detach())
        _runtime[0].upload(made, tensor)
        return made


def _downloaded(tensor: torch.Tensor) -> torch.Tensor:
    if on_host(tensor) or not _runtime or not _runtime[0].tells_host:
        return tensor
    with torch._C.DisableTorchFunction():
        ordinary = tensor.layout is torch.strided and tensor.device.type == "cpu" and tensor.numel() > 0
        if not ordinary or tensor.requires_grad:
            return tensor
        extent = 1 + sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
        room = torch.frombuffer(bytearray(extent * tensor.element_size()), dtype=torch.uint8)
        made = torch.empty(0, dtype=tensor.dtype, device="cpu")
        made.set_(room.untyped_storage(), 0, tensor.shape, tensor.stride())
        with _disable_current_modes():
            return made.copy_(tensor)
