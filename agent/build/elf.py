"""Reader for the symbols of a 64-bit ELF file written by g++: an object or a shared library."""

import struct
from collections.abc import Iterator
from typing import NamedTuple

_DYNAMIC_SYMBOLS, _ALL_SYMBOLS = 11, 2
"""Section types: a table of a library's exports and imports, and one of all named symbols of a file."""
_WRITABLE = 1
"""Section flag for writable memory, which holds variables."""
_OBJECT, _SECTION, _FILE = 1, 3, 4
"""Symbol types for data, sections and files; sections and files are not names in the source."""
_LOCAL, _WEAK = 0, 2
"""Symbol bindings; higher values are system-specific, for symbols unique within a process."""


class NotElf(ValueError):
    """Exception raised for bytes that are not a readable 64-bit ELF file."""


class Symbol(NamedTuple):
    name: str
    value: int
    """Address in a library, or offset into the symbol's section in an object."""
    is_defined: bool
    """False if another file has to provide the symbol."""
    is_local: bool
    """True if other files cannot refer to the symbol."""
    is_variable: bool
    """True if the symbol lies in writable memory, or is data that several files may define."""


def symbols(image: bytes, *, dynamic: bool = False) -> Iterator[Symbol]:
    """Yield all symbols of a file, or only its exports and imports (`dynamic`). Raises NotElf."""
    if image[:5] != b"\x7fELF\x02":
        raise NotElf("it is no 64-bit ELF file")
    try:
        yield from _symbols(image, _DYNAMIC_SYMBOLS if dynamic else _ALL_SYMBOLS)
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        raise NotElf(f"its tables cannot be read: {error}") from error


def _symbols(image: bytes, wanted: int) -> Iterator[Symbol]:
    (table,) = struct.unpack_from("<Q", image, 40)
    size, count = struct.unpack_from("<HH", image, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, table + i * size) for i in range(count)]
    for _, kind, _, _, offset, length, link, *_ in sections:
        if kind != wanted:
            continue
        names = sections[link][4]
        for place in range(offset, offset + length, 24):
            name, info, _, section, value, _ = struct.unpack_from("<IBBHQQ", image, place)
            if name == 0 or info & 15 in (_SECTION, _FILE):
                continue
            text = image[names + name : image.index(b"\0", names + name)].decode("utf-8", "replace")
            binding, is_object = info >> 4, info & 15 == _OBJECT
            writable = 0 < section < count and bool(sections[section][2] & _WRITABLE)
            variable = binding <= _WEAK and (writable or (binding == _WEAK and is_object))
            yield Symbol(text, value, section != 0, binding == _LOCAL, variable)
