"""The records of many calls of one process: how each behaves, and one alone.

A record comes in segments, from the end of one call to the end of the next. What happened before a call's
inputs were handed in cannot depend on those that a replay is given: it may bring along what it likes.
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
    """What happened until a call, and in the call."""

    before: list[Event]
    call: list[Event]

    @property
    def is_new(self) -> bool:
        """Whether the call is the first of an instance."""
        return any(isinstance(event, events.Given) and event.what == "state" for event in self.before)


class Behaviour(NamedTuple):
    """What a call did, apart from values: calls at the same sizes have the same, as a rule."""

    kernels: tuple[tuple[Any, int], ...]
    """Name, grid, block and shared memory of each launch, with how often."""
    operators: tuple[tuple[Any, int], ...]
    """Torch's, copies and fills left out: name and dtypes, with how often."""
    host_bytes: int
    """From the host to the device."""

    @property
    def launches(self) -> int:
        return sum(count for _, count in self.kernels)


def segment(record: str) -> Segment:
    """One segment, read strictly. Raises Forged."""
    recorded = events.read(record)
    begin = next((n for n, event in enumerate(recorded) if _is_input(event)), 0)
    return Segment(recorded[:begin], recorded[begin:])


def behaviour(of: Segment) -> Behaviour:
    launches = Counter((e.name, e.grid, e.block, e.shared) for e in of.call if isinstance(e, events.Launch))
    ran = Counter(
        (e.name, tuple(_dtype(t) for t in operators.tensors(e.given)))
        for e in of.call
        if isinstance(e, events.Operator) and e.name not in operators.LAYOUT
    )
    written = sum(e.bytes for e in of.call if isinstance(e, events.Write))
    return Behaviour(tuple(sorted(launches.items())), tuple(sorted(ran.items())), written)


def difference(one: Behaviour, other: Behaviour) -> str:
    """In words what `one` does that `other` does not, and what it leaves out."""
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
    """What a replay of the chosen call needs.

    Of earlier calls the first of each instance, where caches are filled, all of them, or none. What they do
    comes before the inputs of the chosen one exist, on inputs that are zeros: lengths and indices among them,
    at which a kernel that is right may end with an error.
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
    """The allocations of a record, none of which shares an address with another."""

    def __init__(self, recorded: Iterable[Event]) -> None:
        sizes = {event.to: event.bytes for event in recorded if isinstance(event, events.Allocate)}
        self._starts = sorted(sizes)
        self._sizes = sizes

    def start(self, address: int) -> int | None:
        """Of the allocation that the address lies in, or just behind; None for an address in none."""
        at = bisect.bisect_right(self._starts, address) - 1
        if at < 0:
            return None
        start = self._starts[at]
        return start if address - start <= self._sizes[start] else None

    def touched(self, event: Event) -> set[int]:
        """The allocations that the event may read or write, by their starts."""
        starts = map(self.start, _addresses(event))
        return {start for start in starts if start is not None}


def words(raw: bytes) -> Iterator[int]:
    """Those of eight bytes, where a kernel's argument or a table may hold an address."""
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
    """Without the allocations that nothing uses."""
    memory = Memory(recorded)
    used = {start for event in recorded for start in memory.touched(event)}
    return [event for event in recorded if not isinstance(event, events.Allocate) or event.to in used]


def _blank(call: list[Event]) -> Iterator[Event]:
    """An earlier call, on zeros."""
    for event in call:
        if isinstance(event, events.Given) and event.what == INPUTS:
            yield events.Fill(event.to, event.bytes, "00")
        elif not isinstance(event, events.Outputs):
            yield event


def _is_input(event: Event) -> bool:
    return isinstance(event, events.Given) and event.what == INPUTS


def _dtype(tensor: dict[str, Any]) -> str:
    return str(tensor["tensor"][1] if "tensor" in tensor else tensor.get("dtype"))


def _times(count: int) -> str:
    return "once" if count == 1 else "never" if count == 0 else f"{count} times"
