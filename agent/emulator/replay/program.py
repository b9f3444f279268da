"""Conversion of an untrusted record (torch_shim/recording.py) to the steps of a replay.

A step may use the judge's own bytes, by name, or literal bytes from the host. Literal bytes from before the
inputs were drawn cannot depend on them; later literal bytes are counted by `host_words.passed`. A step may
also launch at an entry of a library that the judge built, or run an operator of torch.

An operator that `--library-ops` does not allow is left out, and the memory it would have written keeps its
fill pattern. If it uses only parameters and constants, it runs before the inputs exist instead. Candidates
may therefore pack weights with any operator of torch, because there is no input to compute from.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from agent.emulator.replay import events, operators
from agent.emulator.replay.calls import INPUTS, Memory
from agent.emulator.replay.events import Forged, OutputElsewhere
from agent.emulator.replay.operators import Step
from agent.records import LibraryOps
from agent.torch_shim.c_abi import LARGEST_ARENA

FILES = "own"
"""Prefix of the names of files with the judge's bytes, such as `own-inputs.0` and `own-state.3`."""


class Omitted(NamedTuple):
    """Operation of the recorded call that the replay leaves out."""

    what: str
    """Description of the operation, such as `torch's gelu`."""
    written: range | None
    """Memory that the operation wrote, or None if unknown."""
    line: int | None


class Output(NamedTuple):
    """Tensor that forward returned."""

    address: int
    dtype: str
    shape: list[int]
    strides: list[int]

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


class Program(NamedTuple):
    """Steps of a replay in two parts; `before` runs before the inputs exist."""

    memory: tuple[int, int]
    before: list[Step]
    after: list[Step]
    outputs: list["Output"]
    omitted: list[Omitted]
    launches: int
    pieces: list[range]
    """Address ranges that kernels may access. In an allocation with padded inputs only the inputs count."""

    def last_writer(self) -> Omitted | None:
        """Return the last omitted operation that wrote to memory of an output, or None."""
        for omitted in reversed(self.omitted):
            if omitted.written and any(output.address in omitted.written for output in self.outputs):
                return omitted
        return None


def read(
    recorded: Sequence[events.Event], libraries: Mapping[str, tuple[int, set[int]]], setting: LibraryOps
) -> Program:
    """Convert a record to the steps of a replay.

    `libraries` maps the path of each library in the recorded process to its number in the replay and its
    launch entries. Raise Forged for an invalid record; any other exception is a bug in this project.
    """
    return _Reader(libraries, setting, Memory(recorded)).program(recorded)


class _Reader:
    def __init__(
        self, libraries: Mapping[str, tuple[int, set[int]]], setting: LibraryOps, pieces: Memory
    ) -> None:
        self._libraries, self._setting, self._pieces = libraries, setting, pieces
        self._before: list[Step] = []
        self._after: list[Step] = []
        self._omitted: list[Omitted] = []
        self._outputs: list[Output] = []
        self._known: list[range] = []
        self._inputs: list[range] = []
        self._written: set[int] = set()
        self._touched: set[int] = set()
        """Start addresses of the allocations that the call passed to kernels. `_written` has the allocations
        that the call wrote to by other means."""
        self._running = False
        self._launches = 0

    def program(self, recorded: Sequence[events.Event]) -> Program:
        memory = [range(e.to, e.to + e.bytes) for e in recorded if isinstance(e, events.Allocate)]
        start = min((span.start for span in memory), default=0) // 4096 * 4096
        end = -(-max((span.stop for span in memory), default=0) // 4096) * 4096
        if end - start > LARGEST_ARENA:
            raise Forged("device memory is larger than it can be")
        # No address is handed out twice, so all memory can be allocated at the start.
        self._before += [["allocate", span.start, len(span)] for span in memory]
        for event in recorded:
            self._take(event)
        return Program(
            (start, end),
            self._before,
            self._after,
            self._outputs,
            self._omitted,
            self._launches,
            [part for span in memory for part in (self._inputs_in(span) or [span])],
        )

    def _inputs_in(self, span: range) -> list[range]:
        return [part for part in self._inputs if part.start in span]

    def _take(self, event: events.Event) -> None:
        match event:
            case events.Allocate():
                if not self._running:
                    self._known.append(range(event.to, event.to + event.bytes))
            case events.Given():
                self._on_given(event)
            case events.Launch():
                self._on_launch(event)
            case events.Write():
                self._on_write(event)
            case events.Move():
                to, source = self._place(event.to), self._place(event.source)
                if to is not None and source is not None:
                    self._wrote(event.to)
                    self._add(["move", to, source, event.bytes])
            case events.Fill():
                place = self._place(event.to)
                if place is not None:
                    self._wrote(event.to)
                    self._add(["fill", place, event.data, event.bytes])
            case events.Operator():
                self._on_operator(event)
            case events.Outputs():
                self._on_outputs(event)
            case events.Lost():
                self._omit("a launch from outside the extensions", None, span=None)

    def _add(self, *steps: Step) -> None:
        (self._after if self._running else self._before).extend(steps)

    def _wrote(self, place: events.Place) -> None:
        start = self._pieces.start(place) if self._running and isinstance(place, int) else None
        if start is not None:
            self._written.add(start)

    def _on_given(self, event: events.Given) -> None:
        name = f"{FILES}-{event.what}.{event.index}"
        if event.what not in (INPUTS, "state", "init") or event.index < 0:
            raise Forged(f"bytes of {event.what}")
        if event.what == INPUTS:
            self._running = True
            self._inputs.append(range(event.to, event.to + event.bytes))
        if event.bytes:
            self._add(["file", event.to, name, event.bytes])

    def _on_launch(self, event: events.Launch) -> None:
        entry = self._place(event.entry)
        if (
            not isinstance(event.entry, tuple)
            or entry is None
            or entry[1] not in self._entries(event.entry[0])
        ):
            raise Forged(f"a launch that enters at {event.entry}")
        words = [[at, self._place(place)] for at, place in event.words]
        raw = bytes.fromhex(event.arguments)
        if any(not 0 <= at <= len(raw) - 8 or place is None for at, place in words):
            raise Forged("an address outside the arguments")
        self._launches += 1
        if self._running:
            self._touched |= self._pieces.touched(event)
        step = {
            "name": event.name, "line": event.line, "grid": event.grid, "block": event.block,
            "shared": event.shared, "cooperative": event.cooperative, "cluster": event.cluster,
            "arguments": event.arguments, "entry": entry, "words": words,
        }  # fmt: skip
        self._add(["launch", step])

    def _on_write(self, event: events.Write) -> None:
        count, place = event.bytes, self._place(event.to)
        if event.data is None or place is None:
            span = range(event.to, event.to + count) if isinstance(event.to, int) else None
            self._omit(f"{count} bytes written by host code", None, span=span)
            return
        self._wrote(event.to)
        self._add(["bytes", place, event.data])

    def _on_outputs(self, event: events.Outputs) -> None:
        for description in event.tensors:
            if "tensor" not in description:
                raise OutputElsewhere("an output outside device memory")
            address, dtype, shape, strides = description["tensor"]
            self._outputs.append(Output(address, dtype, shape, strides))

    def _on_operator(self, event: events.Operator) -> None:
        name = event.name
        taken = operators.tensors(event.given)
        made = [result for result in event.results if result is not None]
        lost = any("other" in tensor or tensor.get("literal", "") is None for tensor in taken)
        own, dot, _ = event.overload.rpartition(".")
        if dot:
            # An operator that the candidate defines; the record contains its launches.
            what = f"what the operator {name}.{own} does besides launching kernels"
            self._omit(what, event.line, span=_written(event))
            return
        if lost or operators.random(name):
            what = "data of the host" if lost else f"torch's {name}"
            self._omit(what, event.line, span=_written(event))
            return
        allowed = operators.allowed(name, self._setting)
        fixed = self._running and self._is_fixed(event, taken, allowed)
        if self._running and not fixed and not allowed:
            self._omit(f"torch's {name.strip('_')}", event.line, span=_written(event))
            return
        if name.endswith("_") and event.arguments and isinstance(event.arguments[0], dict):
            self._wrote(event.arguments[0].get("tensor", [None])[0])
        steps = operators.lowered(event)
        if steps is None:
            steps = [["operator", name, event.overload, event.arguments, event.keywords, event.results]]
        if fixed:
            self._before += steps
            self._known += [operators.span(result) for result in made if "tensor" in result]
        else:
            self._add(*steps)

    def _is_fixed(self, event: events.Operator, taken: list[dict[str, Any]], allowed: bool) -> bool:
        """Return True if the operator makes new tensors only from data that existed before the inputs.

        A kernel may have written to memory that it was passed, so an allowed operator on it keeps its place.
        """
        new = all(result is not None for result in event.results) and not event.name.endswith("_")
        spans = [operators.span(tensor) for tensor in taken if "tensor" in tensor]
        used = {self._pieces.start(span.start) for span in spans if span}
        if used & self._written or (allowed and used & self._touched):
            return False
        return new and all(
            _within(span, self._known) and not _within(span, self._inputs) for span in spans if span
        )

    def _omit(self, what: str, line: int | None, *, span: range | None) -> None:
        if self._running:
            self._omitted.append(Omitted(what, span, line))

    def _place(self, place: events.Place) -> Any:
        """Return a place as an address, or as library number and offset; None for an unknown library."""
        if not isinstance(place, tuple):
            return place
        return [self._libraries[place[0]][0], place[1]] if place[0] in self._libraries else None

    def _entries(self, path: str) -> set[int]:
        return self._libraries[path][1]


def _written(event: events.Operator) -> range | None:
    targets = [event.arguments[0]] if event.name.endswith("_") and event.arguments else event.results
    spans = [operators.span(t) for t in targets if isinstance(t, dict) and "tensor" in t]
    return spans[0] if spans else None


def _within(span: range, known: list[range]) -> bool:
    return any(span.start in other and span.stop <= other.stop for other in known)
