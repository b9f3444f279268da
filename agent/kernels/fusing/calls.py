"""Form of a module's call: the parameters of its forward that get tensors, and all other values."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch
from torch.utils import _pytree as pytree

_PLAIN = (
    type(None),
    bool,
    int,
    float,
    str,
    torch.dtype,
    torch.device,
    FunctionType,
    BuiltinFunctionType,
    type,
)
_STARRED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Unfit(Exception):
    """Error for a module whose calls cannot be traced; the text is one line with the reason."""


def is_plain(value: Any) -> bool:
    """Return True for a value that can be written into a trace and compared with a value of a later call."""
    if type(value) in (tuple, list):
        return all(map(is_plain, value))
    return isinstance(value, _PLAIN)


def is_same(value: Any, known: Any) -> bool:
    """Return True if a plain value equals the known value; True does not equal 1."""
    return value is known or (type(value) is type(known) and bool(value == known))


@dataclass(frozen=True)
class Call:
    """Form of a call. All calls of one form can run the same trace."""

    names: tuple[str, ...]
    """Names of forward's parameters, in order, without `*args` and `**kwargs`."""
    traced: Mapping[str, type]
    """Parameters that get a tensor, or a tuple or list with tensors in it, and the type of their value."""
    constants: Mapping[str, Any]
    """Values of all other parameters."""
    defaulted: frozenset[str]
    """Constant parameters whose value is their default."""

    def values(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], is_of: Callable[[Any, type], bool] | None = None
    ) -> list[Any] | None:
        """Return the values of the traced parameters, or None for a call of another form.

        `is_of` decides if a value has the traced type; by default the value's own type decides.
        """
        is_of = is_of or _is_of
        if len(args) > len(self.names):
            return None
        found = []
        for place, name in enumerate(self.names):
            is_traced = name in self.traced
            if place < len(args):
                value = args[place]
            elif name in kwargs:
                value = kwargs[name]
            elif name in self.defaulted:
                continue
            else:
                return None
            if is_traced:
                if not is_of(value, self.traced[name]):
                    return None
                found.append(value)
            elif not is_same(value, self.constants[name]):
                return None
        for name in kwargs:
            if name not in self.names[len(args) :]:
                return None
        return found


def call_of(forward: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
    """Return the form of `forward(self, *args, **kwargs)`. Raises Unfit if it cannot be expressed."""
    _, *parameters = inspect.signature(forward).parameters.values()
    named = [parameter for parameter in parameters if parameter.kind not in _STARRED]
    names = tuple(parameter.name for parameter in named)
    if len(args) > len(names) or not set(kwargs) <= set(names):
        raise Unfit("its forward is called with arguments that have no name of their own")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    traced: dict[str, type] = {}
    constants: dict[str, Any] = {}
    defaulted = set()
    for parameter in named:
        value = given.get(parameter.name, parameter.default)
        if is_plain(value):
            if not (parameter.name in given or is_plain(parameter.default)):
                raise Unfit(f"its forward is called without {parameter.name}")
            constants[parameter.name] = value
            if is_plain(parameter.default) and is_same(value, parameter.default):
                defaulted.add(parameter.name)
        elif isinstance(value, torch.Tensor) or _has_tensors(value):
            traced[parameter.name] = torch.Tensor if isinstance(value, torch.Tensor) else type(value)
        else:
            raise Unfit(f"its argument {parameter.name} is a {type(value).__name__}, which is not traced")
    return Call(names, traced, constants, frozenset(defaulted))


def _is_of(value: Any, kind: type) -> bool:
    return isinstance(value, torch.Tensor) if kind is torch.Tensor else type(value) is kind


def _has_tensors(value: Any) -> bool:
    return type(value) in (tuple, list) and any(
        isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(value)
    )
