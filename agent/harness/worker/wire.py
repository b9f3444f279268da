"""Transfer of values between processes as JSON and raw bytes. Standalone: the worker runs a copy.

A value becomes a tree of `["tensor", i]`, `["list", [...]]`, `["tuple", [...]]`, `["dict", [[k, v], ...]]`
and `["value", json]`. Arguments of a constructor may also hold `["object", [[name, v], ...]]`, an object by
its attributes, and `["named", [module, name]]`, a class or function of torch; no candidate may send these.
The file `<stem>.<i>` holds nothing but the bytes of tensor i. Nothing is pickled. Reading checks that a file
is a plain file of exactly the promised size.
"""

import math
import os
import stat
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import torch

Tree = list[Any]
MOST_NESTED, MOST_DIMENSIONS = 32, 64


class WireError(ValueError):
    """Exception raised if received data does not match its description."""


def dump(value: Any, folder: Path, stem: str) -> dict[str, Any]:
    """Write the tensors of `value` and return its description."""
    tensors: list[torch.Tensor] = []
    _describe(value, tensors)
    for index, tensor in enumerate(tensors):
        flat = tensor.detach().to("cpu").contiguous().reshape(-1)
        with _fresh(folder / f"{stem}.{index}") as file:
            flat.view(torch.uint8).numpy().tofile(file)
    return {"stem": stem} | describe(value)


def describe(value: Any) -> dict[str, Any]:
    """Return structure, shapes and dtypes of `value`, without the location of its tensors."""
    tensors: list[torch.Tensor] = []
    tree = _describe(value, tensors)
    specs = [{"shape": list(t.shape), "dtype": str(t.dtype).removeprefix("torch.")} for t in tensors]
    return {"tree": tree, "tensors": specs}


def checked(description: Any) -> dict[str, Any]:
    """Return a description made by another process. Raises WireError if `describe` cannot have made it."""
    try:
        tensors = [(list(spec["shape"]), str(spec["dtype"])) for spec in description["tensors"]]
        numbers = list(_numbers(description["tree"], MOST_NESTED))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise WireError(f"no description of tensors: {type(error).__name__}: {error}"[:300]) from None
    if numbers != list(range(len(tensors))):
        raise WireError(f"{len(tensors)} tensors are described, and the tree has {numbers[:8]}")
    for shape, _ in tensors:
        if len(shape) > MOST_DIMENSIONS or any(type(n) is not int or not 0 <= n < 1 << 48 for n in shape):
            raise WireError("a shape that no tensor has")
    return dict(description)


def _numbers(tree: Any, levels: int) -> Iterator[int]:
    """Yield the numbers of the tensors in a tree, in order. Raises ValueError or TypeError for no tree."""
    kind, content = tree
    if kind == "tensor" and type(content) is int:
        yield content
    elif kind in ("list", "tuple", "dict") and levels and isinstance(content, list):
        for item in content:
            if kind == "dict":
                key, item = item
                if not isinstance(key, str):
                    raise TypeError("a key that is no text")
            yield from _numbers(item, levels - 1)
    elif not (kind == "dtype" and isinstance(vars(torch).get(str(content)), torch.dtype)) and not (
        kind == "value" and (content is None or isinstance(content, (bool, int, float, str)))
    ):
        raise ValueError(f"a tree has no {str(kind)[:40]!r} of {type(content).__name__}")


def load(description: dict[str, Any], folder: Path, device: str = "cpu") -> Any:
    """Return the value that `dump` wrote. Raises WireError if a file does not match its description."""
    stem = str(description["stem"])
    tensors = [
        read_tensor(folder / f"{stem}.{index}", tuple(spec["shape"]), spec["dtype"]).to(device)
        for index, spec in enumerate(description["tensors"])
    ]
    return rebuild(description["tree"], tensors)


def read_tensor(path: Path, shape: tuple[int, ...], dtype: str) -> torch.Tensor:
    """Return the tensor whose raw bytes are in a file. Raises WireError if the file's size does not match."""
    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype):
        raise WireError(f"no dtype is named {dtype!r}")
    size = math.prod(shape) * kind.itemsize
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise WireError(f"tensor file {path.name} cannot be read: {error.strerror}") from None
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size != size:
            raise WireError(f"tensor file {path.name} is not a plain file of {size} bytes")
        buffer = torch.empty(size, dtype=torch.uint8)
        if size and file.readinto(buffer.numpy().data) != size:
            raise WireError(f"tensor file {path.name} ended early")
    return buffer.view(kind).reshape(shape) if size else torch.empty(shape, dtype=kind)


def _fresh(path: Path) -> BinaryIO:
    """Open a new file at `path`, where the candidate may have put a link or a pipe."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    return open(descriptor, "wb")  # noqa: PTH123 - a descriptor, not a path


def _describe(value: Any, tensors: list[torch.Tensor]) -> Tree:
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return ["tensor", len(tensors) - 1]
    if isinstance(value, (list, tuple)):
        name = "list" if isinstance(value, list) else "tuple"
        return [name, [_describe(item, tensors) for item in value]]
    if isinstance(value, dict):
        return ["dict", [[str(key), _describe(item, tensors)] for key, item in value.items()]]
    if isinstance(value, torch.dtype):
        return ["dtype", str(value).removeprefix("torch.")]
    if value is None or isinstance(value, (bool, int, float, str)):
        return ["value", value]
    if isinstance(value, torch.device):
        return ["device", str(value)]
    if _is_torchs(value):
        return ["named", [value.__module__, value.__qualname__]]
    if not callable(value) and (held := _held(value)) is not None:
        return ["object", [[name, _describe(item, tensors)] for name, item in held.items()]]
    raise WireError(f"a value of type {type(value).__name__} cannot cross the process border")


def _is_torchs(value: Any) -> bool:
    """Return True for a class or function that torch has under its own name."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not callable(value) or str(module).partition(".")[0] != "torch" or not str(name).isidentifier():
        return False
    return getattr(sys.modules.get(str(module)), str(name), None) is value


def _held(value: Any) -> dict[str, Any] | None:
    """Return the attributes of a plain object, those of its class and its properties included.

    A configuration is such an object. Returns None if it has none, or its constructor holds other code.
    """
    kind = type(value)
    if not hasattr(value, "__dict__") or isinstance(value, torch.nn.Module):
        return None
    own = [base for base in kind.__mro__ if base.__module__ not in ("builtins", "enum", "typing")]
    names = [name for base in reversed(own) for name in vars(base) if not name.startswith("_")]
    found = {name: getattr(value, name, None) for name in [*names, *vars(value)]}
    return {name: item for name, item in found.items() if not callable(item) or _is_torchs(item)}


def rebuild(tree: Tree, tensors: list[torch.Tensor]) -> Any:
    """Return the value that a tree describes, with `tensors` in it."""
    kind, content = tree
    if kind == "tensor":
        return tensors[content]
    if kind in ("list", "tuple"):
        items = [rebuild(item, tensors) for item in content]
        return items if kind == "list" else tuple(items)
    if kind == "dict":
        return {key: rebuild(item, tensors) for key, item in content}
    if kind == "dtype":
        return getattr(torch, content)
    if kind == "device":
        return torch.device(content)
    if kind == "named":
        module, name = content
        return getattr(sys.modules[module], name)
    if kind == "object":
        return types.SimpleNamespace(**{name: rebuild(item, tensors) for name, item in content})
    return content
