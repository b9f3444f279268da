"""Copies of built extensions that run no code when loaded and whose launch entries are known.

Host functions stay in the file, but no initialiser calls them. A replay enters the library only at the
launch entries that `entries` returns.
"""

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from agent.build import elf
from agent.torch_shim.c_abi import LAUNCH_ENTRY

_LAUNCH = re.compile(rf"{LAUNCH_ENTRY}\w+$")
"""Pattern for the names of functions that kw::Launch (kw/device.h) passes to the runtime."""
_DYNAMIC, _LOAD = 2, 1
_NULL, _DEBUG, _PLT_SIZE, _SYMBOLS, _RELA, _RELA_SIZE, _PLT = 0, 21, 2, 6, 7, 8, 23
_FUNCTIONS = {12, 13}  # DT_INIT, DT_FINI
_ARRAY_SIZES = {27, 28, 33}  # DT_INIT_ARRAYSZ, DT_FINI_ARRAYSZ, DT_PREINIT_ARRAYSZ
_IRELATIVE, _IFUNC = 37, 10


class NotLoadable(Exception):
    """The file is not a library, or runs code while loading that cannot be removed."""


class _Segment(NamedTuple):
    kind: int
    offset: int
    address: int
    size: int


def without_initialisers(library: bytes) -> bytes:
    """Return the library without the constructors and destructors that loading would call.

    Raise NotLoadable if code resolves a symbol, and for a file that is not a 64-bit ELF library.
    """
    image = bytearray(library)
    try:
        segments = list(_segments(image))
        entries = [e for s in segments if s.kind == _DYNAMIC for e in _dynamic(image, s)]
        for place, tag, _ in entries:
            if tag in _FUNCTIONS:
                struct.pack_into("<QQ", image, place, _DEBUG, 0)
            elif tag in _ARRAY_SIZES:
                struct.pack_into("<Q", image, place + 8, 0)
        if not entries or _resolved_by_code(image, {tag: value for _, tag, value in entries}, segments):
            raise NotLoadable("it resolves symbols by running code")
    except (struct.error, IndexError) as error:
        raise NotLoadable(f"it is no library: {error}") from error
    return bytes(image)


def entries(library: bytes) -> set[int]:
    """Return the offsets at which a launch enters the library."""
    return {symbol.value for symbol in elf.symbols(library) if _LAUNCH.match(symbol.name)}


def prepared(library: Path, copy: Path) -> set[int]:
    """Write the library without initialisers to `copy`, and return its launch entries."""
    image = library.read_bytes()
    copy.write_bytes(without_initialisers(image))
    return entries(image)


def _segments(image: bytearray) -> Iterator[_Segment]:
    if image[:5] != b"\x7fELF\x02":
        raise NotLoadable("it is no 64-bit ELF file")
    (table,) = struct.unpack_from("<Q", image, 32)
    size, count = struct.unpack_from("<HH", image, 54)
    for place in range(table, table + size * count, size):
        kind, _, offset, address, _, length, *_ = struct.unpack_from("<IIQQQQQQ", image, place)
        yield _Segment(kind, offset, address, length)


def _dynamic(image: bytearray, segment: _Segment) -> Iterator[tuple[int, int, int]]:
    """Yield the file offset, tag and value of each entry of the dynamic section."""
    for place in range(segment.offset, segment.offset + segment.size, 16):
        tag, value = struct.unpack_from("<QQ", image, place)
        if tag == _NULL:
            return
        yield place, tag, value


def _resolved_by_code(image: bytearray, values: dict[int, int], segments: list[_Segment]) -> bool:
    def at(address: int) -> int:
        return next(
            s.offset + address - s.address
            for s in segments
            if s.kind == _LOAD and 0 <= address - s.address < s.size
        )

    for start, size in ((_RELA, _RELA_SIZE), (_PLT, _PLT_SIZE)):
        if start not in values or not values.get(size):
            continue
        first = at(values[start])
        for place in range(first, first + values[size], 24):
            _, info, _ = struct.unpack_from("<QQq", image, place)
            kind = image[at(values[_SYMBOLS]) + 24 * (info >> 32) + 4] & 15
            if info & 0xFFFFFFFF == _IRELATIVE or kind == _IFUNC:
                return True
    return False
