"""Whether a tensor is the device's or the host's, told by where its memory lies, and the way between the two.

Real memory is the CPU's for both. A tensor of the host lies outside device memory, so that a kernel that is
given its address is found out. What a computation on the host's tensors alone gives is the host's as well,
and no part of the record of what is done to device memory. Where torch's allocator is not the emulator's
(its headers are missing) every tensor counts as the device's, and so does one without elements.
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
"""What torch does with tensors of both sides; else the host's may only be single numbers."""
_runtime: list[Runtime] = []


def use(runtime: Runtime) -> None:
    """The runtime whose memory is the device's."""
    _runtime[:] = [runtime]


def on_host(tensor: torch.Tensor) -> bool:
    """Whether a kernel of a GPU could not read this tensor."""
    if not _runtime or tensor.layout is not torch.strided or not _runtime[0].tells_host:
        return False
    with torch._C.DisableTorchFunction():
        if tensor.device.type != "cpu":
            return False
        address = tensor.untyped_storage().data_ptr()
    return address != 0 and not _runtime[0].holds(address)


def place_of(tensor: torch.Tensor) -> torch.device:
    """What such a tensor says that its device is."""
    return CPU if on_host(tensor) else CUDA


def to_device(value: Any) -> Any:
    """The same with tensors of the host copied to the device."""
    return nested.each(value, _uploaded)


def to_host(value: Any) -> Any:
    """The same with tensors of the device copied to the host; one that requires a gradient stays."""
    return nested.each(value, _downloaded)


def blank(tensor: torch.Tensor) -> torch.Tensor:
    """For a tensor of the host one on the device of the same form, which nobody has written."""
    if not on_host(tensor):
        return tensor
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        return _runtime[0].empty(tensor.detach())


def makes(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether what a function gives for these arguments would be the host's: no tensor goes in."""
    return bool(_runtime) and _runtime[0].tells_host and next(nested.tensors((args, kwargs)), None) is None


def made_on_host(make: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What `make` makes, out of nothing or of the host's tensors, in memory of the host."""
    with _disable_current_modes():
        return to_host(make(*args, **kwargs))


def run(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What `func` gives where its tensors are.

    Raises RuntimeError in torch's words where tensors of both sides meet that must not.
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
