"""Makes the CPU look like `cuda:0` to Python code.

Every tensor counts as being on the GPU: code that leaves a tensor on the CPU by mistake is not found
out here. Nothing in this module is a security boundary.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from .runtime import Runtime

CUDA = torch.device("cuda", 0)
_CPU = torch.device("cpu")
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

_runtime: list[Runtime] = []
_OPERATORS = (torch._ops.OpOverload, torch._ops.OpOverloadPacket)
_own_operators: list[Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]] = []


def use(runtime: Runtime) -> None:
    """The runtime whose memory tensors are made in; without one, tensors are where torch has them."""
    _runtime[:] = [runtime]


def is_emulated() -> bool:
    """Whether tensors of the CPU stand for those of a GPU."""
    return bool(_runtime)


def note(tensor: torch.Tensor) -> None:
    """Called before device code gets the address of a tensor, wherever torch put it."""
    if _runtime:
        _runtime[0].note(tensor)


def run_own_operators(run: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]) -> None:
    """How operators that extensions registered are called; torch's own run on the CPU as they are."""
    _own_operators[:] = [run]


def note_uninitialised(tensor: torch.Tensor) -> None:
    """Called for device memory that is C++'s own and that whoever made it was going to write."""
    _runtime[0].note_uninitialised(tensor)


def own(make: Callable[..., torch.Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    """What `make` makes, in device memory; memory that nobody writes stays poisoned."""
    if not _runtime:
        return make(*args, **kwargs)
    wanted = kwargs.pop("requires_grad", False)
    if kwargs.get("out") is not None:
        return make(*args, **kwargs)
    if make in _UNINITIALISED:
        made = _runtime[0].uninitialised(make(*args, **kwargs | {"device": "meta"}))
    else:
        filled = make(*args, **kwargs | {"device": "cpu"})
        made = _runtime[0].empty(filled)
        made.copy_(filled.detach())
    return made.requires_grad_() if wanted else made


def cuda_to_cpu(value: Any) -> Any:
    """A CUDA device becomes the CPU where that stands for it; everything else stays."""
    if _runtime and isinstance(value, torch.device) and value.type == "cuda":
        return _CPU
    return value


def _names_cuda(value: Any) -> bool:
    if isinstance(value, torch.device):
        return value.type == "cuda"
    return isinstance(value, str) and value.split(":")[0] == "cuda"


def _names_cpu(values: Iterable[Any]) -> bool:
    return any(value == "cpu" or value == _CPU for value in values if isinstance(value, (str, torch.device)))


def _to(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    away = _names_cpu((*args[1:], kwargs.get("device")))
    args = tuple(_CPU if _names_cuda(arg) else arg for arg in args)
    moved = func(*args, **kwargs | ({"device": _CPU} if "device" in kwargs else {}))
    # A copy to the host never shares memory with the tensor it was made from.
    return moved.clone() if away and moved is args[0] else moved


def _device(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.device:
    real: torch.device = func(*args, **kwargs)
    return CUDA if real.type == "cpu" else real


def _data_ptr(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    note(args[0])
    address: int = func(*args, **kwargs)
    return address


def _type(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    asked = [*args[1:], *kwargs.values()]
    if asked and isinstance(asked[0], str):
        return func(args[0], asked[0].replace("torch.cuda.", "torch."), *args[2:])
    answer = func(*args, **kwargs)
    return answer.replace("torch.", "torch.cuda.") if isinstance(answer, str) else answer


_T = torch.Tensor
_HANDLERS: dict[Any, Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]] = {
    _T.device.__get__: _device,
    _T.is_cuda.__get__: lambda func, args, kwargs: True,  # type: ignore[attr-defined]
    _T.is_cpu.__get__: lambda func, args, kwargs: False,  # type: ignore[attr-defined]
    _T.get_device: lambda func, args, kwargs: 0,
    _T.cuda: lambda func, args, kwargs: args[0],
    _T.cpu: lambda func, args, kwargs: args[0].clone(),
    _T.pin_memory: lambda func, args, kwargs: args[0],
    _T.record_stream: lambda func, args, kwargs: None,
    _T.to: _to,
    _T.data_ptr: _data_ptr,
    _T.type: _type,
}


class EmulatedDevice(TorchFunctionMode):
    """Answers questions about devices as a GPU would and runs everything on the CPU."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        handler = _HANDLERS.get(func)
        if handler is not None:
            return handler(func, args, kwargs)
        if _own_operators and isinstance(func, _OPERATORS) and not str(func).startswith(("aten.", "prim")):
            return _own_operators[0](func, args, kwargs)
        device = kwargs.get("device")
        if _names_cuda(device) or isinstance(device, int):
            kwargs["device"] = _CPU
        if func in _FACTORIES and kwargs.get("device", _CPU) in (None, _CPU, "cpu"):
            kwargs.pop("device", None)
            kwargs.pop("pin_memory", None)
            return own(func, args, kwargs)
        return func(*(cuda_to_cpu(arg) for arg in args), **kwargs)
