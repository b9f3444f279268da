"""A record that is not trusted (guest/recording.py) becomes the steps of a replay, or is refused.

What a step may bring along: the judge's own bytes, by name; literal bytes from the host up to LITERAL_LIMIT
in all; launches at an entry of a library that the judge built; operators of torch. An operator that the
setting does not allow is left out, and what it would have written stays poisoned, unless it uses parameters
and constants alone: then it runs before the inputs exist. That is the rule for packing weights ahead:
whatever torch computes from parameters is legal, shown by computing it where there is no input to compute
from.
"""

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from agent.emulator.replay import operators
from agent.emulator.replay.operators import Step
from agent.records import LibraryOps

LITERAL_LIMIT = 4096
"""Bytes of host data, constant tables for example, that may take part."""
INPUTS = "inputs"
FILES = "own"
"""How names of files with the judge's bytes begin: `own-inputs.0`, `own-state.3`, `own-init.0`."""
_LARGEST_MEMORY = 1 << 40
_RECORD_KINDS = {"allocate", "launch", "write", "move", "fill", "given", "operator", "outputs", "lost"}


class Forged(Exception):
    """The record is none that the runtime writes."""


class Omitted(NamedTuple):
    """What the replay leaves out."""

    what: str
    """In words: `torch's gelu`."""
    written: range | None
    """The memory that it wrote, as far as it is known."""
    line: int | None


class Output(NamedTuple):
    """One tensor that forward returned."""

    address: int
    dtype: str
    shape: list[int]
    strides: list[int]

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * operators.itemsize(self.dtype)


class Program(NamedTuple):
    """Steps in two parts: `before` runs before the inputs exist."""

    memory: tuple[int, int]
    before: list[Step]
    after: list[Step]
    outputs: list["Output"]
    omitted: list[Omitted]
    launches: int
    by_value: int
    """Bytes that came from the host: literals, and arguments of kernels that are no addresses."""

    def last_writer(self) -> Omitted | None:
        """What was left out and last wrote to memory of an output."""
        for omitted in reversed(self.omitted):
            if omitted.written and any(output.address in omitted.written for output in self.outputs):
                return omitted
        return None


def read(record: str, libraries: Mapping[str, tuple[int, set[int]]], setting: LibraryOps) -> Program:
    """The steps that `record` stands for.

    `libraries`: for the path of each library as the process loaded it, its number in the replay and its
    launch entries. Raises Forged.
    """
    try:
        events = [json.loads(line) for line in record.splitlines()]
        if not events or any(event["do"] not in _RECORD_KINDS for event in events):
            raise Forged("an event of an unknown kind")
        return _Reader(libraries, setting).program(events)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise Forged(f"{type(error).__name__}: {error}") from error


class _Reader:
    def __init__(self, libraries: Mapping[str, tuple[int, set[int]]], setting: LibraryOps) -> None:
        self._libraries, self._setting = libraries, setting
        self._before: list[Step] = []
        self._after: list[Step] = []
        self._omitted: list[Omitted] = []
        self._outputs: list[Output] = []
        self._known: list[range] = []
        self._inputs: list[range] = []
        self._running = False
        self._launches = self._literal = self._by_value = 0

    def program(self, events: Iterable[dict[str, Any]]) -> Program:
        memory = [range(e["to"], e["to"] + e["bytes"]) for e in events if e["do"] == "allocate"]
        start = min((span.start for span in memory), default=0) // 4096 * 4096
        end = -(-max((span.stop for span in memory), default=0) // 4096) * 4096
        if start < 0 or end - start > _LARGEST_MEMORY:
            raise Forged("device memory is larger than it can be")
        # No address is handed out twice, so that all memory can be there from the start.
        self._before += [["allocate", span.start, len(span)] for span in memory]
        for event in events:
            getattr(self, "_on_" + event["do"])(event)
        return Program(
            (start, end),
            self._before,
            self._after,
            self._outputs,
            self._omitted,
            self._launches,
            self._by_value,
        )

    def _add(self, *steps: Step) -> None:
        (self._after if self._running else self._before).extend(steps)

    def _on_allocate(self, event: dict[str, Any]) -> None:
        if not self._running:
            self._known.append(range(event["to"], event["to"] + event["bytes"]))

    def _on_given(self, event: dict[str, Any]) -> None:
        name = f"{FILES}-{event['what']}.{int(event['index'])}"
        if event["what"] not in (INPUTS, "state", "init"):
            raise Forged(f"bytes of {event['what']}")
        if event["what"] == INPUTS:
            self._running = True
            self._inputs.append(range(event["to"], event["to"] + event["bytes"]))
        if event["bytes"]:
            self._add(["file", event["to"], name, event["bytes"]])

    def _on_launch(self, event: dict[str, Any]) -> None:
        entry = self._place(event["entry"])
        if not isinstance(entry, list) or entry[1] not in self._entries(event["entry"][0]):
            raise Forged(f"a launch that enters at {event['entry']}")
        words = [[at, self._place(place)] for at, place in event["words"]]
        raw = bytes.fromhex(event["arguments"])
        if any(not 0 <= at <= len(raw) - 8 or place is None for at, place in words):
            raise Forged("an address outside the arguments")
        self._launches += 1
        if self._running:
            self._by_value += len(raw) - 8 * self._addresses(raw)
        kept = {key: event[key] for key in ("name", "line", "grid", "block", "shared", "arguments")}
        self._add(["launch", kept | {"entry": entry, "words": words}])

    def _on_write(self, event: dict[str, Any]) -> None:
        count, place = event["bytes"], self._place(event["to"])
        data = event["data"]
        if data is None or place is None or not self._admits(count):
            self._omit(f"{count} bytes written by host code", event, span=_span(event["to"], count))
            return
        self._by_value += count if self._running else 0
        self._add(["bytes", place, data])

    def _on_move(self, event: dict[str, Any]) -> None:
        to, source = self._place(event["to"]), self._place(event["from"])
        if to is not None and source is not None:
            self._add(["move", to, source, event["bytes"]])

    def _on_fill(self, event: dict[str, Any]) -> None:
        place = self._place(event["to"])
        if place is not None:
            self._add(["fill", place, event["data"], event["bytes"]])

    def _on_lost(self, event: dict[str, Any]) -> None:
        self._omit("a launch from outside the extensions", event, span=None)

    def _on_outputs(self, event: dict[str, Any]) -> None:
        for description in event["tensors"]:
            if "tensor" not in description:
                raise Forged("an output outside device memory")
            address, dtype, shape, strides = description["tensor"]
            self._outputs.append(Output(address, dtype, shape, strides))

    def _on_operator(self, event: dict[str, Any]) -> None:
        name = event["name"]
        taken = operators.tensors([event["arguments"], event["keywords"]])
        made = [result for result in event["results"] if result is not None]
        literal = sum(_literal_bytes(tensor) for tensor in taken)
        lost = any("other" in tensor or tensor.get("literal", "") is None for tensor in taken)
        if lost or operators.random(name) or not self._admits(literal):
            what = "data of the host" if lost or literal else f"torch's {name}"
            self._omit(what, event, span=_written(event))
            return
        fixed = self._running and self._is_fixed(event, taken)
        if self._running and not fixed and not operators.allowed(name, self._setting):
            self._omit(f"torch's {name.strip('_')}", event, span=_written(event))
            return
        self._by_value += literal if self._running else 0
        steps = operators.lowered(event)
        if steps is None:
            call = [event["arguments"], event["keywords"], event["results"]]
            steps = [["operator", name, event["overload"], *call]]
        if fixed:
            self._before += steps
            self._known += [operators.span(result) for result in made if "tensor" in result]
        else:
            self._add(*steps)

    def _is_fixed(self, event: dict[str, Any], taken: list[dict[str, Any]]) -> bool:
        """Whether it makes something new of what was there before the inputs."""
        new = all(result is not None for result in event["results"]) and not event["name"].endswith("_")
        spans = [operators.span(tensor) for tensor in taken if "tensor" in tensor]
        return new and all(
            _within(span, self._known) and not _within(span, self._inputs) for span in spans if span
        )

    def _admits(self, count: int) -> bool:
        """Whether so many bytes more may come from the host; they count if so."""
        if self._literal + count > LITERAL_LIMIT:
            return count == 0
        self._literal += count
        return True

    def _omit(self, what: str, event: dict[str, Any], *, span: range | None) -> None:
        if self._running:
            self._omitted.append(Omitted(what, span, event.get("line")))

    def _place(self, place: Any) -> Any:
        """An address, or the number of a library and an offset; None for anything else."""
        if isinstance(place, int):
            return place
        if isinstance(place, list) and place[0] in self._libraries:
            return [self._libraries[place[0]][0], int(place[1])]
        return None

    def _entries(self, path: str) -> set[int]:
        return self._libraries[path][1]

    def _addresses(self, raw: bytes) -> int:
        words = (int.from_bytes(raw[at : at + 8], "little") for at in range(0, len(raw) - 7, 8))
        return sum(1 << 40 <= word < 1 << 47 for word in words)


def _span(place: Any, count: int) -> range | None:
    return range(place, place + count) if isinstance(place, int) else None


def _written(event: dict[str, Any]) -> range | None:
    targets = (
        [event["arguments"][0]] if event["name"].endswith("_") and event["arguments"] else event["results"]
    )
    spans = [operators.span(t) for t in targets if isinstance(t, dict) and "tensor" in t]
    return spans[0] if spans else None


def _literal_bytes(tensor: dict[str, Any]) -> int:
    return len(tensor.get("literal") or "") // 2


def _within(span: range, known: list[range]) -> bool:
    return any(span.start in other and span.stop <= other.stop for other in known)
