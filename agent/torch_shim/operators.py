"""Calls of ATen operators by name for C++, on CPU tensors in the emulator and otherwise on GPU tensors.

C++ gives arguments in the order of ATen's schema. The first overload whose schema fits is called. Factories,
indexing and conversions, whose C++ arguments fit no schema, are implemented here.
"""

import ctypes
import weakref
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from . import host_tensors
from .device import cuda_to_cpu, is_emulated, moved, own, refuse_integer_product
from .values import ABSENT, Options

_FACTORIES = {
    "empty", "zeros", "ones", "full", "empty_like", "zeros_like", "ones_like", "full_like", "rand", "randn",
    "rand_like", "randn_like", "randint", "randint_like", "randperm", "arange", "linspace", "logspace", "eye",
    "empty_strided", "empty_permuted", "new_empty", "new_zeros", "new_ones", "new_full", "new_empty_strided",
    "tensor", "scalar_tensor", "tril_indices", "triu_indices", "range",
}  # fmt: skip
_grad_modes: list[bool] = []


def call(name: str, arguments: list[Any]) -> Any:
    """Call operator `name` and return its result.

    Raise NotImplementedError if torch has no such operator or overload, and whatever the operator raises.
    """
    refuse_integer_product(name, arguments)
    if name in _SPECIAL:
        return _SPECIAL[name](*(argument for argument in arguments if argument is not ABSENT))
    if name in _FACTORIES:
        return _factory(name, arguments)
    if name.endswith("_out"):
        return _by_schema(name.removesuffix("_out"), arguments[1:], out=arguments[0])
    return _by_schema(name, arguments)


def _by_schema(name: str, arguments: list[Any], out: torch.Tensor | None = None) -> Any:
    for overload, parameters in _overloads(name, out is not None):
        bound = _bind(parameters, arguments)
        if bound is None:
            continue
        positional, keywords = bound
        if out is not None:
            keywords["out"] = out
        return host_tensors.run(overload, tuple(positional), keywords)
    shown = ", ".join(_kind(argument) for argument in arguments)
    raise NotImplementedError(f"no overload of {name} takes ({shown})")


@cache
def _overloads(name: str, with_out: bool) -> list[tuple[Callable[..., Any], list[Any]]]:
    packet = getattr(torch.ops.aten, name, None)
    if packet is None:
        raise NotImplementedError(f"torch has no operator {name}")
    found = []
    for label in packet.overloads():
        overload = getattr(packet, label)
        parameters = list(overload._schema.arguments)
        writes = any(parameter.is_out for parameter in parameters)
        if writes == with_out:
            found.append((overload, [parameter for parameter in parameters if not parameter.is_out]))
    return found


def _bind(parameters: list[Any], arguments: list[Any]) -> tuple[list[Any], dict[str, Any]] | None:
    """Return positional and keyword arguments for a schema, or None if they do not fit the schema."""
    if len(arguments) > len(parameters):
        return None
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    for index, parameter in enumerate(parameters):
        given = arguments[index] if index < len(arguments) else ABSENT
        kind = str(parameter.real_type)
        if given is ABSENT:
            if parameter.has_default_value():
                continue
            if index >= len(arguments):
                return None
            given = [] if kind.startswith("List[") else None
        if not _fits(given, kind):
            return None
        if kind.startswith("List[") and isinstance(given, (int, float)):
            given = [given]
        given = cuda_to_cpu(given)
        if parameter.kwarg_only or len(positional) < index:
            keywords[parameter.name] = given
        else:
            positional.append(given)
    return positional, keywords


def _fits(value: Any, kind: str) -> bool:
    if kind.startswith("Optional["):
        return value is None or _fits(value, kind[len("Optional[") : -1])
    if kind.startswith("List["):
        inner = kind[len("List[") : -1]
        if isinstance(value, (list, tuple)):
            return all(_fits(item, inner) for item in value)
        return inner in ("int", "SymInt") and isinstance(value, int) and not isinstance(value, bool)
    accepted = _ACCEPTED.get(kind)
    if accepted is None or (isinstance(value, bool) and kind in ("int", "SymInt")):
        return False
    return isinstance(value, accepted)


_ACCEPTED: dict[str, Any] = {
    "Tensor": torch.Tensor,
    "int": int,
    "SymInt": int,
    "float": (float, int),
    "bool": bool,
    "number": (int, float, bool),
    "Scalar": (int, float, bool),
    "str": str,
    "ScalarType": torch.dtype,
    "MemoryFormat": torch.memory_format,
    "Layout": torch.layout,
    "Device": torch.device,
}


def _kind(value: Any) -> str:
    return "absent" if value is ABSENT else type(value).__name__


def _options(arguments: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Split C++ arguments into values and tensor options; options may be a TensorOptions or single values."""
    values: list[Any] = []
    options: dict[str, Any] = {}
    for argument in arguments:
        if isinstance(argument, Options):
            options |= {key: item for key, item in argument._asdict().items() if item is not ABSENT}
        elif isinstance(argument, torch.dtype):
            options["dtype"] = argument
        elif isinstance(argument, torch.memory_format):
            options["memory_format"] = argument
        elif isinstance(argument, torch.device):
            options["device"] = argument
        elif isinstance(argument, torch.layout) or argument is ABSENT or argument is None:
            continue
        else:
            values.append(argument)
    return values, options


def _factory(name: str, arguments: list[Any]) -> torch.Tensor:
    if arguments and arguments[0] is ABSENT:
        arguments = [[], *arguments[1:]]  # C++ wrote {}: no dimensions
    values, options = _options(arguments)
    if name == "randint" and len(values) == 2:
        values = [0, *values]
    make = getattr(torch.Tensor if name.startswith("new_") else torch, name)
    return own(make, tuple(values), options)


def _to(tensor: torch.Tensor, *arguments: Any) -> torch.Tensor:
    values, options = _options(list(arguments))
    flags = [value for value in values if isinstance(value, bool)]
    others = [value for value in values if isinstance(value, torch.Tensor)]
    options.pop("requires_grad", None)
    copy = len(flags) > 1 and flags[1]
    if not is_emulated():
        options |= {"dtype": others[0].dtype, "device": others[0].device} if others else {}
        return tensor.to(copy=copy, **options)
    device = options.pop("device", None)
    if others:
        device, options["dtype"] = host_tensors.place_of(others[0]), others[0].dtype
    changed: torch.Tensor = host_tensors.run(torch.Tensor.to, (tensor,), options | {"copy": copy})
    return moved(changed, device)


def _from_blob(address: int, sizes: list[int], strides: list[int] | None, *rest: Any) -> torch.Tensor:
    """Return a view of memory that the extension owns, as at::from_blob does.

    After the options, the addresses of a deleter function and of its argument may follow. The deleter is
    called when the view is freed. Raise NotImplementedError on a GPU.
    """
    if not is_emulated():
        raise NotImplementedError("from_blob: memory of a GPU that torch did not allocate")
    ending, options = _options(list(rest))
    shape = torch.empty(sizes, dtype=options.get("dtype", torch.float32), device="meta")
    steps = strides if strides is not None else list(shape.stride())
    extent = 1 + sum((n - 1) * step for n, step in zip(sizes, steps, strict=True))
    if shape.numel() == 0:
        return torch.empty(sizes, dtype=shape.dtype)
    buffer = (ctypes.c_char * (extent * shape.element_size())).from_address(address)
    if ending:
        function, held = ending
        end = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(function)
        weakref.finalize(buffer, end, held).atexit = False
    return torch.frombuffer(buffer, dtype=shape.dtype).as_strided(sizes, steps)


def _index(tensor: torch.Tensor, indices: list[Any]) -> torch.Tensor:
    return tensor[tuple(indices)]


def _index_put(
    tensor: torch.Tensor, indices: list[Any], value: Any, accumulate: bool = False
) -> torch.Tensor:
    if accumulate:
        return tensor.index_put_(tuple(indices), value, accumulate=True)
    tensor[tuple(indices)] = value
    return tensor


def _grad_mode(enabled: bool | None) -> None:
    """Enter a scope with gradients enabled or disabled; with None leave the last scope."""
    if enabled is None:
        torch.set_grad_enabled(_grad_modes.pop())
    else:
        _grad_modes.append(torch.is_grad_enabled())
        torch.set_grad_enabled(enabled)


_SPECIAL: dict[str, Callable[..., Any]] = {
    "to": _to,
    "from_blob": _from_blob,
    "index": _index,
    "index_put_": _index_put,
    "grad_mode": _grad_mode,
    "current_stream": lambda index: torch.cuda.current_stream(index if index >= 0 else None).cuda_stream,
    "item": lambda tensor: tensor.item(),
    "contiguous": lambda tensor, form=torch.contiguous_format: tensor.contiguous(memory_format=form),
    "clone": lambda tensor, form=torch.preserve_format: tensor.clone(memory_format=form),
    "requires_grad_": lambda tensor, wanted=True: tensor.requires_grad_(wanted),
    "storage_offset": lambda tensor: tensor.storage_offset(),
    "split": lambda tensor, size, dim=0: list(tensor.split(size, dim)),
    "pin_memory": lambda tensor: tensor if is_emulated() else tensor.pin_memory(),
    "einsum": lambda equation, operands, *rest: torch.einsum(equation, *operands),
    "__repr__": lambda tensor: repr(tensor),
}
