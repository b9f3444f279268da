"""Strict parser for the record of a process's operations on device memory.

`record.cpp` and `torch_shim/recording.py` write the record.

The record comes from the candidate's process. Every line must be one of the events below, with valid
addresses and sizes, or `read` raises Forged. Code that uses parsed events may rely on these properties, and
an exception in such code is a bug in this project.
"""

import math
import re
from dataclasses import dataclass, field
from typing import Any

from agent.sandbox import messages
from agent.torch_shim.c_abi import LARGEST_ARENA

_ADDRESSES = range(1 << 48)
_MOST_DIMENSIONS = 64
_HEX = re.compile(r"[0-9a-f]*")
_NAMED = {"dtype", "memory_format", "layout", "device", "other"}
"""Keys that describe an operator's argument which is neither a tensor nor a plain value."""
_SIZES = {
    "bool": 1, "uint8": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "float16": 2, "bfloat16": 2,
    "float32": 4, "float64": 8, "complex32": 4, "complex64": 8, "complex128": 16, "uint16": 2, "uint32": 4,
    "uint64": 8, "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
}  # fmt: skip

Place = int | tuple[str, int] | None
"""Address in device memory, or a library's path and an offset in it; None for memory of the host."""


class Forged(Exception):
    """The record is invalid, so the emulator's runtime cannot have written it."""


class OutputElsewhere(Forged):
    """An output of the recorded call is not in device memory."""


@dataclass(frozen=True)
class Allocate:
    to: int
    bytes: int


@dataclass(frozen=True)
class Given:
    """Event of a tensor whose bytes the judge provided, such as input `index`."""

    what: str
    index: int
    to: int
    bytes: int


@dataclass(frozen=True)
class Launch:
    entry: Place
    name: str
    line: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    cooperative: bool
    cluster: tuple[int, int, int]
    arguments: str
    words: list[tuple[int, Place]]
    """Offsets in the arguments that hold an address within a library, and those addresses."""


@dataclass(frozen=True)
class Write:
    """Event of bytes written from the host to the device; `data` is None if they are too many to record."""

    to: Place
    bytes: int
    data: str | None


@dataclass(frozen=True)
class Move:
    to: Place
    source: Place = field(metadata={"key": "from"})
    bytes: int


@dataclass(frozen=True)
class Fill:
    to: Place
    bytes: int
    data: str


@dataclass(frozen=True)
class Operator:
    """Event of a call of an ATen operator; `torch_shim/recording.py` defines how tensors are described."""

    name: str
    overload: str
    arguments: list[Any]
    keywords: dict[str, Any]
    results: list[Any]
    line: int | None

    @property
    def given(self) -> list[Any]:
        """Return arguments and keyword values, without keyword names, which may be `other` or `tensor`."""
        return [self.arguments, list(self.keywords.values())]


@dataclass(frozen=True)
class Outputs:
    tensors: list[Any]


@dataclass(frozen=True)
class Lost:
    """Event of a launch whose kernel lies in no built extension, so it cannot be replayed."""


Event = Allocate | Given | Launch | Write | Move | Fill | Operator | Outputs | Lost


def read(record: str) -> list[Event]:
    """Parse the events of a record, in order. Raise Forged if the record is invalid."""
    events: list[Event] = []
    for number, line in enumerate(record.removesuffix("\n").split("\n"), 1):
        try:
            event: Event = messages.decoded(line, Event)
            _check(event)
        except messages.Malformed as error:
            raise Forged(f"line {number}{error}"[:300]) from None
        events.append(event)
    return events


def itemsize(dtype: str) -> int:
    """Return the size (bytes) of an element of a dtype that a record may name."""
    return _SIZES[dtype]


def extent(shape: list[int], strides: list[int], size: int) -> int:
    """Return the bytes from a tensor's first element to the end of its last; each element has `size`."""
    if not math.prod(shape):
        return 0
    return size * (1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True)))


def _check(event: Event) -> None:
    """Raise Malformed for an event with valid types but values that the runtime never writes."""
    match event:
        case Allocate() | Given():
            _need(event.to in _ADDRESSES and event.bytes in _ADDRESSES, "an address that no memory has")
        case Launch():
            _need(_is_hex(event.arguments), "arguments that are no bytes")
            _need(_is_text(event.name) and abs(event.line) < 1 << 31, "a kernel of no such name or line")
            sizes = (*event.grid, *event.block, event.shared)
            _need(all(0 <= number < 1 << 31 for number in sizes), "a size that no launch has")
            places = (event.entry, *(word for _, word in event.words))
            _need(all(map(_is_place, places)), "a place that no memory has")
        case Write():
            _need(_is_place(event.to) and event.bytes in _ADDRESSES, "a place that no memory has")
            held = event.data is None or (_is_hex(event.data) and len(event.data) == 2 * event.bytes)
            _need(held, "data that are not its bytes")
        case Fill():
            _need(_is_place(event.to) and event.bytes in _ADDRESSES, "a place that no memory has")
            _need(_is_hex(event.data) and event.data != "", "data that are no bytes")
        case Move():
            _need(_is_place(event.to) and _is_place(event.source), "a place that no memory has")
            _need(event.bytes in _ADDRESSES, "more bytes than memory has")
        case Operator():
            _check_values([*event.given, event.results])
            _need(all(r is None or isinstance(r, dict) for r in event.results), "a result that is none")
        case Outputs():
            _check_values(event.tensors)
            _need(all(isinstance(tensor, dict) for tensor in event.tensors), "an output that is no tensor")
        case Lost():
            pass


def _need(holds: bool, otherwise: str) -> None:
    if not holds:
        raise messages.Malformed(f": {otherwise}")


def _is_place(place: Place) -> bool:
    return place is None or (place if isinstance(place, int) else place[1]) in _ADDRESSES


def _is_text(text: str) -> bool:
    """Return True if the text can be passed to C as a string."""
    return "\0" not in text and text.encode("utf-8", "replace").decode() == text


def _is_hex(text: object) -> bool:
    return isinstance(text, str) and len(text) % 2 == 0 and _HEX.fullmatch(text) is not None


def _check_values(values: list[Any]) -> None:
    for value in values:
        if isinstance(value, list):
            _check_values(value)
        elif isinstance(value, dict):
            known = _is_tensor(value) or _is_literal(value)
            named = (
                len(value) == 1 and value.keys() <= _NAMED and all(isinstance(v, str) for v in value.values())
            )
            _need(known or named, f"an argument that is none: {str(value)[:80]}")


def _is_tensor(value: dict[str, Any]) -> bool:
    given = value.get("tensor")
    if len(value) != 1 or not isinstance(given, list) or len(given) != 4:
        return False
    address, dtype, shape, strides = given
    if type(address) is not int or address not in _ADDRESSES or not _is_dtype(dtype):
        return False
    if not (_are_sizes(shape) and _are_sizes(strides) and len(shape) == len(strides)):
        return False
    return extent(shape, strides, _SIZES[dtype]) <= LARGEST_ARENA


def _is_literal(value: dict[str, Any]) -> bool:
    if value.keys() != {"literal", "dtype", "shape"} or not _is_dtype(value["dtype"]):
        return False
    if not _are_sizes(value["shape"]):
        return False
    data = value["literal"]
    size = math.prod(value["shape"]) * _SIZES[value["dtype"]]
    return data is None or (_is_hex(data) and len(data) == 2 * size)


def _is_dtype(name: object) -> bool:
    return isinstance(name, str) and name in _SIZES


def _are_sizes(numbers: object) -> bool:
    return (
        isinstance(numbers, list)
        and len(numbers) <= _MOST_DIMENSIONS
        and all(type(number) is int and 0 <= number < 1 << 40 for number in numbers)
    )
