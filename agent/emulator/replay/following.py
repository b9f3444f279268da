"""Tracking of which kernel wrote to which device memory. The player imports a copy of this file."""

import ctypes
from pathlib import Path
from typing import Any

import c_abi  # type: ignore[import-not-found]  # a copy beside this file


class Following:
    """Tracker of writes by the launches of one replay, for the command `Follow`."""

    def __init__(self, runtime: Any, folder: Path, command: Any) -> None:
        self._runtime, self._folder, self._command = runtime, folder, command
        self._left = command.most
        self._launch = self._began = 0
        self._entry: Any = None
        self._written: dict[tuple[int, int], int] = {}
        """Number of the last of consecutive launches of one kernel that wrote to a piece of memory. The key
        has the number of the first of these launches and the number of the piece."""
        for address, size in command.pieces:
            runtime.kw_register(address, size, b"")
        runtime.kw_draw(c_abi.MEMORY_ONES, c_abi.ORDER_FORWARD, 0)

    def begin(self) -> None:
        """Start to check launches and record writers; launches count from 1 after this."""
        self._runtime.kw_check(1)
        self._runtime.kw_note_writers(1)

    def after(self, entry: Any) -> None:
        """Record the writes of the launch that has ended; `entry` is its kernel's entry in the library."""
        self._launch += 1
        if entry != self._entry:
            self._began, self._entry = self._launch, entry
        for piece, (address, size) in enumerate(self._command.pieces):
            if size <= self._left and self._runtime.kw_writers(address, size, None):
                self._left -= size
                self._written[self._began, piece] = self._launch
                number = list(self._written).index((self._began, piece))
                self._save(("values", "writers"), number, address, size)

    def end(self) -> dict[str, Any]:
        """Save the outputs and return the answer."""
        for number, (address, size) in enumerate(self._command.outputs):
            self._save(("output", "output-writers"), number, address, size)
        return {"written": [(began, last, piece) for (began, piece), last in self._written.items()]}

    def _save(self, names: tuple[str, str], number: int, address: int, size: int) -> None:
        """Save `size` bytes at an address to one file, and the kw_writers cells of their words to another."""
        values, writers = (self._folder / f"{self._command.stem}-{name}.{number}" for name in names)
        values.write_bytes(ctypes.string_at(address, size))
        cells = (ctypes.c_uint64 * ((address + size + 3) // 4 - address // 4))()
        if size:
            self._runtime.kw_writers(address, size, cells)
        writers.write_bytes(bytes(cells))
