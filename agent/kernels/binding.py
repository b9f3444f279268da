"""Calls into a kernel's C library: each function takes one struct of 8-byte fields, packed at once.

ctypes and `struct` cost 0.5 us a call, and the library uses no symbol of torch (ADR 12). The caller is
responsible for the pointers: this module does not check tensors.
"""

import ctypes
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from agent.kernels.replaying import watching

Alike = tuple[int, ...] | None
MOST_REMEMBERED = 4096
"""Maximum size of the cache of `Library.remembered`, for programs whose sizes never stop changing."""
_PLACES: dict[int, tuple["Library", str]] = {}
"""Library and name of each C function whose launches were recorded, by the function's address."""


class LaunchError(RuntimeError):
    """Error for a launch that CUDA refused; the text has the kernel's name and CUDA's message."""


class Library:
    """Loaded C library of one kernel.

    The fields of a struct are spelled as in `struct`: `q` for an address or an integer, `d` for a double.
    """

    def __init__(self, name: str, path: Path) -> None:
        """Load the library. Raises OSError if the operating system cannot load it."""
        self._name = name
        self._loaded = ctypes.CDLL(str(path))
        self._loaded.error_text.restype = ctypes.c_char_p
        self._remembered: dict[tuple[str, Alike], int] = {}
        self._bound: dict[str, tuple[Callable[..., bytes], Callable[[bytes], int]]] = {}

    def launch(self, function: str, fields: str, *values: float) -> None:
        """Call a function that launches. Raises LaunchError if CUDA refuses the launch."""
        pack, run = self._bound.get(function) or self._bind(function, fields)
        code = run(pack(*values))
        if code:
            self.refuse(function, code)
        recorder = watching.recorder()
        if recorder is not None:
            address = _address(run)
            _PLACES[address] = self, function
            recorder.launched(address, fields, values)

    def refuse(self, function: str, code: int) -> NoReturn:
        """Raise LaunchError for the error code that the function returned."""
        said = self._loaded.error_text(code).decode()
        raise LaunchError(f"{self._name}: {function} was not launched: {said} (CUDA error {code})")

    def ask(self, function: str, fields: str, *values: float) -> int:
        """Return the number that a C function returns for these fields."""
        pack, run = self._bound.get(function) or self._bind(function, fields, ctypes.c_int64)
        return run(pack(*values))

    def remembered(self, alike: Alike, function: str, fields: str, *values: float) -> int:
        """Return the number that a C function returns, called once for all calls with the same `alike`.

        If `alike` is None, the function is called each time.
        """
        if alike is None:
            return self.ask(function, fields, *values)
        known = self._remembered.get((function, alike))
        if known is None:
            if len(self._remembered) >= MOST_REMEMBERED:
                self._remembered.clear()
            self._remembered[function, alike] = known = self.ask(function, fields, *values)
        return known

    def _bind(
        self, name: str, fields: str, result: type = ctypes.c_int
    ) -> tuple[Callable[..., bytes], Callable[[bytes], int]]:
        run = self._loaded[name]
        run.argtypes, run.restype = [ctypes.c_char_p], result
        self._bound[name] = bound = (struct.Struct(f"@{fields}").pack, run)
        return bound


def refuse(address: int, code: int) -> NoReturn:
    """Raise LaunchError for a recorded launch. The text names the library of the C function at `address`."""
    library, function = _PLACES[address]
    library.refuse(function, code)


def _address(function: Any) -> int:
    found = ctypes.cast(function, ctypes.c_void_p).value
    assert found is not None
    return found
