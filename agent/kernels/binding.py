"""Calls into a kernel's C library: each function takes one struct of 8-byte fields, packed in one go.

ctypes and `struct` cost 0.5 us a call, and the library names no symbol of torch (ADR 12). The caller answers
for the pointers: nothing here looks at tensors.
"""

import ctypes
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from agent.kernels.replaying import watching

Alike = tuple[int, ...] | None
MOST_REMEMBERED = 4096
"""Answers, where the sizes of calls change without an end."""
_PLACES: dict[int, tuple["Library", str]] = {}
"""Functions whose launches were recorded, by their addresses."""


class LaunchError(RuntimeError):
    """A launch that CUDA refused; the text names the kernel and CUDA's own words."""


class Library:
    """The loaded library of one kernel.

    A struct's fields are spelled as `struct` does: `q` an address or an integer, `d` a double.
    """

    def __init__(self, name: str, path: Path) -> None:
        """Raises OSError where the system cannot load it."""
        self._name = name
        self._loaded = ctypes.CDLL(str(path))
        self._loaded.error_text.restype = ctypes.c_char_p
        self._remembered: dict[tuple[str, Alike], int] = {}
        self._bound: dict[str, tuple[Callable[..., bytes], Callable[[bytes], int]]] = {}

    def launch(self, function: str, fields: str, *values: float) -> None:
        """Raises LaunchError when CUDA does not take the launch."""
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
        """Raises LaunchError for what the function answered."""
        said = self._loaded.error_text(code).decode()
        raise LaunchError(f"{self._name}: {function} was not launched: {said} (CUDA error {code})")

    def ask(self, function: str, fields: str, *values: float) -> int:
        """The number that a function answers."""
        pack, run = self._bound.get(function) or self._bind(function, fields, ctypes.c_int64)
        return run(pack(*values))

    def remembered(self, alike: Alike, function: str, fields: str, *values: float) -> int:
        """The same, asked once for all calls whose answer `alike` decides; None: asked for this one."""
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
    """As the library of the function at `address` does, for a launch that was recorded."""
    library, function = _PLACES[address]
    library.refuse(function, code)


def _address(function: Any) -> int:
    found = ctypes.cast(function, ctypes.c_void_p).value
    assert found is not None
    return found
