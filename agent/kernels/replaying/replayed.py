"""The functions whose calls are replayed, and when the extension that does it is there.

It is loaded after the first call for which a kernel's library was, and built where need be; where it cannot
be, calls remain Python's, which is said once.
"""

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import torch

from agent.errors import EnvironmentFault
from agent.kernels import routing
from agent.kernels.replaying import extension
from agent.kernels.replaying.recording import record

F = TypeVar("F", bound=Callable[..., Any])


class NotReplaying(UserWarning):
    """Calls of kernels take the longer way through Python."""


class Function:
    """One whose calls are replayed where that gives the same, and are its own where not.

    It launches by one operator, whose tensors are its own, and does nothing else that counts; what it returns
    depends on its arguments and on the state of autograd and autocast, and on nothing else that changes.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.call: Callable[..., Any] = self._first
        """What a call goes to that torch.compile does not trace."""
        _FUNCTIONS.append(self)

    def reset(self) -> None:
        """Forgets what was recorded, and whether there is an extension."""
        self.call = self._first

    def _first(self, *arguments: Any, **named: Any) -> Any:
        result = self.function(*arguments, **named)
        if routing.has_libraries():
            load()
        return result


_FUNCTIONS: list[Function] = []


def replayed(function: F) -> F:
    """The same as a `Function`."""
    one = Function(function)

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        if torch.compiler.is_compiling():
            return function(*arguments, **named)
        return one.call(*arguments, **named)

    return call  # type: ignore[return-value]


def load() -> None:
    """Has calls replayed from now on, where they can be."""
    try:
        made = extension.load() if routing.is_replaying() else None
    except EnvironmentFault as fault:
        warnings.warn(f"{fault}; calls of kernels take the longer way", NotReplaying, stacklevel=2)
        made = None
    for one in _FUNCTIONS:
        one.call = one.function if made is None else made.Replayed(one.function, record)


def reset() -> None:
    """Forgets every recording, and whether there is an extension."""
    for one in _FUNCTIONS:
        one.reset()


routing.resets.append(reset)
