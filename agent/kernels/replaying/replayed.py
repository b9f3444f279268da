"""Functions whose calls are replayed, and the loading of the extension that replays them.

The extension is loaded after the first call that loaded a kernel's library, and built if needed. If it cannot
be built, calls stay in Python, and one warning says so.
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
    """Warning that kernel calls take the longer path through Python."""


class Function:
    """Function whose calls are replayed where the result is the same, and run in Python elsewhere.

    It launches through one operator, which gets the function's own tensors, and has no other effects. Its
    result depends only on its arguments and on the state of autograd and autocast.
    """

    def __init__(self, function: Callable[..., Any], operator: str | None = None) -> None:
        """Wrap the function; `operator` is the torch.library operator whose calls it serves."""
        self.function, self._operator = function, operator
        self._forget: Callable[[], object] = lambda: None
        self.call: Callable[..., Any] = self._first
        """Callable for calls that torch.compile does not trace."""
        _FUNCTIONS.append(self)

    def load(self) -> None:
        """Replay the function's calls from now on, if the extension is available."""
        made = _extension()
        if made is None:
            self.call = self.function
            return
        self.call = made.Replayed(self.function, record)
        if self._operator is not None:
            made.shorten(self._operator, self.call)
            self._forget = partial(made.shorten, self._operator, None)

    def reset(self) -> None:
        """Forget all recordings of the function."""
        self.call = self._first
        self._forget()

    def _first(self, *arguments: Any, **named: Any) -> Any:
        result = self.function(*arguments, **named)
        if routing.has_libraries():
            self.load()
        return result


_FUNCTIONS: list[Function] = []


def replayed(function: F) -> F:
    """Return the function with its calls replayed like those of a `Function`."""
    one = Function(function)

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        if torch.compiler.is_compiling():
            return function(*arguments, **named)
        return one.call(*arguments, **named)

    return call  # type: ignore[return-value]


def is_there() -> bool:
    """Return True if calls are replayed. Builds and loads the extension if needed."""
    return _extension() is not None


def load() -> None:
    """Replay the calls of every function from now on, if the extension is available."""
    for one in _FUNCTIONS:
        one.load()


def reset() -> None:
    """Forget every recording, and whether the extension is available."""
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
