"""Words that the host passes to the device in a call, and the number of words that differ from other calls.

A word is up to four bytes of data or of a kernel's arguments, a place in memory, a size, or an operator's
scalar. Places are relative to inputs and allocations, so that places of two calls can be compared.
"""

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

from agent.emulator.replay import events
from agent.emulator.replay.calls import INPUTS, Memory, Segment
from agent.emulator.replay.events import Event
from agent.records import TensorSpec, Trace
from agent.torch_shim.streams import SIDE_STREAMS

_WORD = 4
_MOST_ALIGNED = 2000
"""Maximum number of events for which two different calls are aligned; longer ones compare by position."""
FEW = 16
"""Maximum number of words that the host may derive from floating-point inputs, whatever the output's size.

A statistic of every row would already be part of the result."""
_KEPT = "kept"
"""Tag of a place in memory that was allocated before the call."""

Leaves = list[Any]
_OF_PLACES = events.Launch | events.Allocate | events.Given


def most(trace: Trace) -> int:
    """Return the maximum number of words that the host may derive from the inputs.

    The number is unlimited with integer inputs, which may hold lengths and indices.
    """
    given = [spec.dtype for spec in trace.inputs if isinstance(spec, TensorSpec)]
    return FEW if all("float" in dtype for dtype in given) else sys.maxsize


def memory(segments: Sequence[Segment]) -> Memory:
    """Return the allocations of all events in the segments."""
    return Memory(event for part in segments for event in (*part.before, *part.call))


def of_launches(call: list[Event], allocated: Memory) -> list[tuple[Any, Leaves]]:
    """Return the words that the host passed to each kernel, both values and places."""
    found = _said([event for event in call if isinstance(event, _OF_PLACES)], allocated)
    return [(key, leaves) for key, leaves in found if key[0] == "launch"]


def by_value(call: list[Event], allocated: Memory) -> tuple[Any, ...]:
    """Return only the values that the host passed to each kernel, without places.

    Values may change what a launch of the same kernel does.
    """
    return tuple(
        (key, tuple(leaf for leaf in leaves if not isinstance(leaf, tuple)))
        for key, leaves in of_launches(call, allocated)
    )


def kept_places(call: list[Event], allocated: Memory) -> list[Any]:
    """Return the places passed to kernels in memory from before the call, except the inputs."""
    leaves = (leaf for _, said in of_launches(call, allocated) for leaf in said)
    return [leaf for leaf in leaves if isinstance(leaf, tuple) and leaf[0] == _KEPT]


def passed(segments: Sequence[Segment], chosen: int, others: Iterable[int]) -> int:
    """Return the number of words from the host in the chosen call that differ in at least one other call.

    Sizes of allocations count too, because they determine the distances between addresses. Without other
    calls every word counts.
    """
    allocated = memory(segments)
    mine, made = _said(segments[chosen].call, allocated), _made(segments[chosen].call)
    apart: set[tuple[int, int]] = set()
    sizes: set[int] = set()
    compared = False
    for number in others:
        compared = True
        theirs = _said(segments[number].call, allocated)
        sizes |= _replaced(made, _made(segments[number].call))
        pairs = _aligned([key for key, _ in mine], [key for key, _ in theirs])
        for at, (_, leaves) in enumerate(mine):
            other = theirs[pairs[at]][1] if at in pairs else []
            same = len(other) == len(leaves)
            apart |= {(at, n) for n, leaf in enumerate(leaves) if not same or leaf != other[n]}
    return len(apart) + len(sizes) if compared else sum(len(leaves) for _, leaves in mine)


def _aligned(one: list[Any], other: list[Any]) -> dict[int, int]:
    """Return the index in `other` that corresponds to each index in `one`, if there is one."""
    if one == other or max(len(one), len(other)) > _MOST_ALIGNED:
        return {n: n for n in range(min(len(one), len(other))) if one[n] == other[n]}
    blocks = SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks()
    return {block.a + n: block.b + n for block in blocks for n in range(block.size)}


def _made(call: list[Event]) -> list[int]:
    """Return the sizes (bytes) of the call's allocations."""
    return [event.bytes for event in call if isinstance(event, events.Allocate)]


def _replaced(one: list[int], other: list[int]) -> set[int]:
    """Return the indices of sizes in `one` that are replaced by other sizes in `other`.

    Extra elements in either list do not count.
    """
    if one == other or max(len(one), len(other)) > _MOST_ALIGNED:
        return {n for n, (mine, theirs) in enumerate(zip(one, other, strict=False)) if mine != theirs}
    found: set[int] = set()
    for tag, first, last, begin, end in SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        if tag == "replace":
            found.update(range(first, min(last, first + end - begin)))
    return found


def _said(call: list[Event], memory: Memory) -> list[tuple[Any, Leaves]]:
    """Return for each event of the call, in order, a key of its kind and the words that the host passed."""
    places = _Places(call, memory)
    found: list[tuple[Any, Leaves]] = []
    for event in call:
        match event:
            case events.Launch():
                sizes = [*event.grid, *event.block, event.shared]
                said = places.in_words(bytes.fromhex(event.arguments), dict(event.words))
                found.append((("launch", event.entry), [*sizes, *said]))
            case events.Write():
                said = places.in_words(bytes.fromhex(event.data or ""), {})
                found.append((("write",), [places.of(event.to), event.bytes, *said]))
            case events.Fill():
                found.append((("fill",), [places.of(event.to), event.bytes, event.data]))
            case events.Move():
                said = [places.of(event.to), places.of(event.source), event.bytes]
                found.append((("move",), said))
            case events.Operator():
                said = list(places.in_values(event.given))
                found.append((("operator", event.name, event.overload), said))
    return found


def _stream_of(call: list[Event]) -> int | None:
    """Return the judge's stream for the call if kernels are passed exactly one.

    Return None for no stream, and for several, because the host then chose between them.
    """
    launches = (event for event in call if isinstance(event, events.Launch))
    found = {word for launch in launches for word in _eights(bytes.fromhex(launch.arguments))}
    streams = found.intersection(SIDE_STREAMS)
    return streams.pop() if len(streams) == 1 else None


def _eights(raw: bytes) -> Iterator[int]:
    return (int.from_bytes(raw[at : at + 8], "little") for at in range(0, len(raw) - 7, 8))


class _Places:
    """Converter of addresses to places relative to a call's inputs and allocations, for comparison."""

    def __init__(self, call: list[Event], memory: Memory) -> None:
        self._memory = memory
        made = [event.to for event in call if isinstance(event, events.Allocate)]
        self._made = {start: number for number, start in enumerate(made)}
        inputs = [event for event in call if isinstance(event, events.Given) and event.what == INPUTS]
        self._stream = _stream_of(call)
        self._inputs = [range(event.to, event.to + max(event.bytes, 1)) for event in inputs]

    def of(self, place: events.Place) -> Any:
        if not isinstance(place, int):
            return place
        if place == self._stream:
            return ("stream",)
        for number, span in enumerate(self._inputs):
            if place in span:
                return "input", number, place - span.start
        start = self._memory.start(place)
        if start is None:
            return None
        known = ("made", self._made[start]) if start in self._made else (_KEPT, start)
        return *known, place - start

    def in_words(self, raw: bytes, known: dict[int, events.Place]) -> Leaves:
        """Return the words in `raw`: four bytes each, or eight bytes that form an address."""
        found: Leaves = []
        for at in range(0, len(raw), 8):
            word = int.from_bytes(raw[at : at + 8], "little")
            place = known.get(at) or (self.of(word) if len(raw) - at >= 8 else None)
            if place is not None:
                found.append(place)
            else:
                found += [raw[n : n + _WORD] for n in range(at, min(at + 8, len(raw)), _WORD)]
        return found

    def in_values(self, value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            for item in value:
                yield from self.in_values(item)
        elif isinstance(value, dict) and "tensor" in value:
            address, *rest = value["tensor"]
            yield self.of(address) if math.prod(rest[1]) else None, rest
        elif isinstance(value, dict) and value.get("literal"):
            yield value["dtype"], value["shape"]
            yield from self.in_words(bytes.fromhex(value["literal"]), {})
        else:
            yield value if not isinstance(value, float) else value.hex()
