"""The functions whose calls are replayed, and when the extension that does it is there.

It is loaded after the first call for which a kernel's library was, and built where need be; where it cannot
be, calls remain Python's, which is said once.
"""

import warnings
from collections.abc import Callable
from functools import cache, partial, wraps
from types import ModuleType
from typing import Any, TypeVar

import torch

from agent import config
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

    def __init__(self, function: Callable[..., Any], operator: str | None = None) -> None:
        """`operator`: the name of the one of torch.library whose calls come here."""
        self.function, self._operator = function, operator
        self._forget: Callable[[], object] = lambda: None
        self.call: Callable[..., Any] = self._first
        """What a call goes to that torch.compile does not trace."""
        _FUNCTIONS.append(self)

    def load(self) -> None:
        """Has its calls replayed from now on, where there is the extension."""
        made = _extension()
        if made is None:
            self.call = self.function
            return
        self.call = made.Replayed(self.function, record)
        if self._operator is not None:
            made.shorten(self._operator, self.call)
            self._forget = partial(made.shorten, self._operator, None)

    def reset(self) -> None:
        """Forgets what was recorded."""
        self.call = self._first
        self._forget()

    def _first(self, *arguments: Any, **named: Any) -> Any:
        result = self.function(*arguments, **named)
        if routing.has_libraries():
            self.load()
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


def is_there() -> bool:
    """Whether calls are replayed; what does that is built and loaded where need be."""
    return _extension() is not None


def load() -> None:
    """Has the calls of every function replayed from now on, where there is the extension."""
    for one in _FUNCTIONS:
        one.load()


def reset() -> None:
    """Forgets every recording, and whether there is an extension."""
    _extension.cache_clear()
    for one in _FUNCTIONS:
        one.reset()


@cache
def _extension() -> ModuleType | None:
    if not config.kernel_settings().kernels_replay:
        return None
    try:
        return extension.load()
    except EnvironmentFault as fault:
        warnings.warn(f"{fault}; calls of kernels take the longer way", NotReplaying, stacklevel=2)
        return None


routing.resets.append(reset)
