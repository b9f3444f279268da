"""Records of many calls of one process: the behaviour of each call, and extraction of a single call.

A record comes in segments, from the end of one call to the end of the next. Events from before the judge
handed in a call's inputs cannot depend on these inputs, so a replay accepts any data in them.
"""

import bisect
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from agent.emulator.replay import events, operators
from agent.emulator.replay.events import Event

INPUTS = "inputs"
Earlier = Literal["first", "all", "none"]
EARLIER: tuple[Earlier, ...] = ("first", "all", "none")


class Segment(NamedTuple):
    """Events of one call (`call`), and events between the previous call and this call (`before`)."""

    before: list[Event]
    call: list[Event]

    @property
    def is_new(self) -> bool:
        """Return True if the call is the first call of a ModelNew instance."""
        return any(isinstance(event, events.Given) and event.what == "state" for event in self.before)


class Behaviour(NamedTuple):
    """Summary of a call without values. Calls with the same input sizes usually have equal summaries."""

    kernels: tuple[tuple[Any, int], ...]
    """Pairs of a launch's (name, grid, block, shared memory) and the number of such launches."""
    operators: tuple[tuple[Any, int], ...]
    """Pairs of a torch operator's (name, dtypes) and its number of calls, without copies and fills."""
    host_bytes: int
    """Bytes written from the host to the device."""

    @property
    def launches(self) -> int:
        return sum(count for _, count in self.kernels)


def segment(record: str) -> Segment:
    """Parse one segment of a record. Raise Forged if the record is invalid."""
    recorded = events.read(record)
    begin = next((n for n, event in enumerate(recorded) if _is_input(event)), 0)
    return Segment(recorded[:begin], recorded[begin:])


def behaviour(of: Segment) -> Behaviour:
    launches = Counter((e.name, e.grid, e.block, e.shared) for e in of.call if isinstance(e, events.Launch))
    ran = Counter(
        (e.name, tuple(map(operators.dtype, operators.tensors(e.given))))
        for e in of.call
        if isinstance(e, events.Operator) and e.name not in operators.LAYOUT
    )
    written = sum(e.bytes for e in of.call if isinstance(e, events.Write))
    return Behaviour(tuple(sorted(launches.items())), tuple(sorted(ran.items())), written)


def difference(one: Behaviour, other: Behaviour) -> str:
    """Return in words which kernels, operators and copies differ between two calls."""
    ours, theirs = Counter(dict(one.kernels)), Counter(dict(other.kernels))
    names = sorted({kernel[0] for kernel in (ours - theirs) + (theirs - ours)})
    parts = []
    for name in names:
        counts = [sum(n for k, n in side.items() if k[0] == name) for side in (ours, theirs)]
        parts.append(
            f"{name} runs with other sizes" if counts[0] == counts[1]
            else f"{name} is launched {_times(counts[0])} and not {_times(counts[1])}"
        )  # fmt: skip
    more = Counter(dict(one.operators)) - Counter(dict(other.operators))
    less = Counter(dict(other.operators)) - Counter(dict(one.operators))
    parts += [f"torch's {name} runs as well" for name in sorted({key[0].strip("_") for key in more})]
    parts += [f"torch's {name} does not run" for name in sorted({key[0].strip("_") for key in less - more})]
    if one.host_bytes != other.host_bytes:
        parts.append(f"{one.host_bytes} bytes come from the host and not {other.host_bytes}")
    return "; ".join(parts[:5]) or "nothing that the records show"


def alone(segments: Sequence[Segment], chosen: int, *, earlier: Earlier) -> list[Event]:
    """Return the events that a replay of the chosen call needs.

    `earlier` selects earlier calls to include: all, none, or the first call of each instance, which may fill
    caches. Earlier calls run before the inputs of the chosen call exist, on zeros instead of their own
    inputs. Lengths and indices are zeros too, so a correct kernel may end with an error.
    """
    found: list[Event] = []
    for number, segment in enumerate(segments[:chosen]):
        found += segment.before
        if earlier == "all" or (earlier == "first" and (number == 0 or segment.is_new)):
            found += _blank(segment.call)
        else:
            found += [event for event in segment.call if isinstance(event, events.Allocate)]
    return _used([*found, *segments[chosen].before, *segments[chosen].call])


class Memory:
    """Allocations of a record, no two of which share an address."""

    def __init__(self, recorded: Iterable[Event]) -> None:
        sizes = {event.to: event.bytes for event in recorded if isinstance(event, events.Allocate)}
        self._starts = sorted(sizes)
        self._sizes = sizes

    def start(self, address: int) -> int | None:
        """Return the start of the allocation that contains or ends at the address, or None."""
        at = bisect.bisect_right(self._starts, address) - 1
        if at < 0:
            return None
        start = self._starts[at]
        return start if address - start <= self._sizes[start] else None

    def touched(self, event: Event) -> set[int]:
        """Return the starts of the allocations that the event may read or write."""
        starts = map(self.start, _addresses(event))
        return {start for start in starts if start is not None}


def words(raw: bytes) -> Iterator[int]:
    """Yield each word of eight bytes as an integer; kernel arguments and tables hold addresses in them."""
    return (int.from_bytes(raw[at : at + 8], "little") for at in range(0, len(raw) - 7, 8))


def _addresses(event: Event) -> list[int]:
    match event:
        case events.Launch():
            return list(words(bytes.fromhex(event.arguments)))
        case events.Write():
            table = words(bytes.fromhex(event.data or ""))
            return [*([event.to] if isinstance(event.to, int) else []), *table]
        case events.Given() | events.Fill():
            return [event.to] if isinstance(event.to, int) else []
        case events.Move():
            return [place for place in (event.to, event.source) if isinstance(place, int)]
        case events.Operator():
            described = operators.tensors([*event.given, event.results])
        case events.Outputs():
            described = event.tensors
        case _:
            return []
    return [tensor["tensor"][0] for tensor in described if "tensor" in tensor]


def _used(recorded: list[Event]) -> list[Event]:
    """Return the events without allocations that no other event uses."""
    memory = Memory(recorded)
    used = {start for event in recorded for start in memory.touched(event)}
    return [event for event in recorded if not isinstance(event, events.Allocate) or event.to in used]


def _blank(call: list[Event]) -> Iterator[Event]:
    """Yield the events of an earlier call, with zeros as inputs and without outputs."""
    for event in call:
        if isinstance(event, events.Given) and event.what == INPUTS:
            yield events.Fill(event.to, event.bytes, "00")
        elif not isinstance(event, events.Outputs):
            yield event


def _is_input(event: Event) -> bool:
    return isinstance(event, events.Given) and event.what == INPUTS


def _times(count: int) -> str:
    return "once" if count == 1 else "never" if count == 0 else f"{count} times"
