"""What passes between oracle and candidate, the oracle's side: files on a CPU, shared memory on a GPU.

Both ways do the same. They give the inputs of a draw, take copies of the outputs that came of it, and tell
which of the tensors that had to stay as they were came back with other bytes. What is taken is raw bytes, and
their places and sizes are those that the reference's own tensors have, never those the candidate states.
"""

import socket
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch

from agent.harness.messages.oracle_commands import Claims
from agent.harness.oracle.batched_calls import Rows
from agent.harness.truth.draws import tree_map
from agent.harness.worker import wire
from agent.harness.worker.memory_guards import leaves
from agent.harness.worker.shared_memory import BAND_BYTES, PIECE_BYTES, Segment, blank, laid

State = dict[str, torch.Tensor]
_WORD = 8


class Excepted(NamedTuple):
    """What a candidate may change, because the reference does."""

    written: set[str]
    """What the reference writes to: names of its state, and `input`."""
    shared: list[list[str]]
    """For each of its outputs what that shares memory with: the next draw may rewrite it."""


class Exchange(Protocol):
    """How the tensors of one draw travel."""

    def give(self, inputs: Any, like: Any, state: State, *, stem: str, in_place: bool) -> dict[str, Any]:
        """What the worker has to know of these inputs; `like` is an output of the reference.

        `in_place`: they take the memory of the draw before.
        """
        ...

    def give_state(self, state: State, stem: str) -> dict[str, Any]:
        """Return what the candidate's worker has to know of these parameters and buffers."""
        ...

    def refresh(self, inputs: Any) -> None:
        """Other values in the memory of the present inputs; only on a GPU."""
        ...

    def rows(self, inputs: Any, like: Any, *, least: int, most: int) -> Rows:
        """Room for calls in a row; only on a GPU."""
        ...

    def outputs(self, description: dict[str, Any], like: Any) -> Any:
        """The outputs that the worker described. Raises WireError where that does not fit."""
        ...

    def changed(
        self, inputs: Any, earlier: Any, state: State, claims: Claims, excepted: Excepted
    ) -> Iterator[str]:
        """Of `input`, `parameter` and `earlier output` those whose bytes are others now."""
        ...

    def written_bands(self, claims: Claims) -> Any:
        """Numbers of the inputs beside which something was written."""
        ...


class Files:
    """Tensors as files of raw bytes in the candidate's folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def give(self, inputs: Any, like: Any, state: State, *, stem: str, in_place: bool) -> dict[str, Any]:
        return {"inputs": wire.dump(inputs, self._folder, stem), "in_place": in_place}

    def give_state(self, state: State, stem: str) -> dict[str, Any]:
        return wire.dump(state, self._folder, stem)

    def refresh(self, inputs: Any) -> None:
        raise RuntimeError("nothing is timed where tensors travel as files")

    def rows(self, inputs: Any, like: Any, *, least: int, most: int) -> Rows:
        raise RuntimeError("nothing is timed where tensors travel as files")

    def outputs(self, description: dict[str, Any], like: Any) -> Any:
        return wire.load(description, self._folder)

    def changed(
        self, inputs: Any, earlier: Any, state: State, claims: Claims, excepted: Excepted
    ) -> Iterator[str]:
        stem = claims.sent_back
        for number, tensor in enumerate([] if "input" in excepted.written else leaves(inputs)):
            if self._differs(f"{stem}-input.{number}", tensor):
                yield "input"
        for number, (name, tensor) in enumerate(state.items()):
            file = f"{stem}-parameter.{number}.0"
            # One that is gone was replaced, as packing does; one that is there must be as it was.
            may = name in excepted.written or not (self._folder / file).exists()
            if not may and self._differs(file, tensor):
                yield "parameter"
        for number, tensor in enumerate(leaves(earlier)):
            if not excepted.shared[number] and self._differs(f"{stem}-output.{number}", tensor):
                yield "earlier output"

    def written_bands(self, claims: Claims) -> Any:
        return claims.written_bands

    def _differs(self, file: str, tensor: torch.Tensor) -> bool:
        given = _bytes(tensor).cpu()
        try:
            size = (self._folder / file).stat().st_size
        except OSError:
            # Whether it is there is up to the candidate's process.
            raise wire.WireError(f"tensor file {file} is missing") from None
        if size != given.numel():
            return True
        return not torch.equal(wire.read_tensor(self._folder / file, tuple(given.shape), "uint8"), given)


class SharedMemory:
    """Tensors in GPU memory that workers map as well, at two addresses: a place for the inputs, which are
    found at the one address or the other, and one for what comes back.

    `descriptors` are local sockets, on each of which a worker gets the memory. Raises MemoryError in `give`
    where the GPU has no room for it.
    """

    def __init__(self, descriptors: list[int]) -> None:
        self._workers = [socket.socket(fileno=descriptor) for descriptor in descriptors]
        for worker in self._workers:
            worker.shutdown(socket.SHUT_RD)
        self._numbers = count(1)
        self._number = 0
        self._segment: Segment | None = None
        self._layout: list[list[int]] = []
        self._mapping = 0
        """Which of the worker's two addresses the inputs have."""
        self._given_state: tuple[int, list[int], Segment] | None = None
        """Number, sizes of its tensors and memory of the parameters that the candidate's worker has."""

    def give(self, inputs: Any, like: Any, state: State, *, stem: str, in_place: bool) -> dict[str, Any]:
        sizes = [[_size(t) for t in leaves(inputs)], [_size(t) for t in leaves(like)],
                 [_size(t) for t in state.values()]]  # fmt: skip
        if self._segment is None or sizes != self._layout:
            self._make(sizes)
        elif not in_place:
            self._mapping = 1 - self._mapping
        description = self._described(inputs)
        self.refresh(inputs)
        return {"inputs": description, "in_place": in_place} | {
            name: {"begin": begin, "end": end} for name, (begin, end) in self._regions.items()
        }

    def give_state(self, state: State, stem: str) -> dict[str, Any]:
        """Put the parameters into memory that the candidate's worker maps, the same for every set of them."""
        described = wire.describe(state) | {"stem": stem}
        tensors = leaves(state)
        sizes = [_size(t) for t in tensors]
        if not sum(sizes):
            return described
        if self._given_state is None or self._given_state[1] != sizes:
            self._given_state = None
            segment = Segment.made(laid(sizes, 0)[1])
            segment.hand_over(self._workers[0])
            self._given_state = next(self._numbers), sizes, segment
        number, _, segment = self._given_state
        for spec, tensor, place in zip(described["tensors"], tensors, laid(sizes, 0)[0], strict=True):
            segment.tensor(place, tensor.shape, tensor.dtype).copy_(tensor)
            spec["offset"] = place
        torch.cuda.synchronize()
        return described | {"segment": number, "bytes": segment.size}

    def refresh(self, inputs: Any) -> None:
        assert self._segment is not None
        for tensor, offset in zip(leaves(inputs), self._inputs, strict=True):
            self._segment.tensor(offset, tensor.shape, tensor.dtype).copy_(tensor)
        torch.cuda.synchronize()

    def rows(self, inputs: Any, like: Any, *, least: int, most: int) -> Rows:
        return Rows(self._workers, inputs, like, least=least, most=most)

    def outputs(self, description: dict[str, Any], like: Any) -> Any:
        assert self._segment is not None
        if not description.get("there"):
            raise wire.WireError("the outputs are not where they belong")
        places = iter(self._places("outputs", leaves(like)))
        segment = self._segment
        return tree_map(lambda t: segment.tensor(next(places), t.shape, t.dtype).clone(), like)

    def changed(
        self, inputs: Any, earlier: Any, state: State, claims: Claims, excepted: Excepted
    ) -> Iterator[str]:
        if "input" not in excepted.written and not self._hold(leaves(inputs), self._inputs):
            yield "input"
        places = self._places("parameters", list(state.values()))
        gone = claims.gone or []
        for number, (name, tensor) in enumerate(state.items()):
            may = name in excepted.written or number in gone
            if not may and not self._hold([tensor], [places[number]]):
                yield "parameter"
        for number, place in enumerate(self._places("earlier", leaves(earlier))):
            if not excepted.shared[number] and not self._hold([leaves(earlier)[number]], [place]):
                yield "earlier output"

    def written_bands(self, claims: Claims) -> Any:
        assert self._segment is not None
        return [
            number
            for number, (place, size) in enumerate(zip(self._inputs, self._layout[0], strict=True))
            if not all(
                bool((self._segment.raw(begin, length) == 255).all())
                for begin, length in (
                    (place - BAND_BYTES, BAND_BYTES),
                    (place + size, -size % BAND_BYTES + BAND_BYTES),
                )
            )
        ]

    def _make(self, sizes: list[list[int]]) -> None:
        inputs, outputs, parameters = sizes
        self._inputs, end = laid(inputs, 0)
        self._regions: dict[str, tuple[int, int]] = {}
        for name, group in (("outputs", outputs), ("earlier", outputs), ("parameters", parameters)):
            begin, end = end, laid(group, end)[1]
            self._regions[name] = begin, end
        self._segment = None
        self._segment = Segment.made(end)
        blank(self._segment)
        self._layout, self._mapping, self._number = sizes, 0, next(self._numbers)
        for worker in self._workers:
            self._segment.hand_over(worker)

    def _described(self, inputs: Any) -> dict[str, Any]:
        assert self._segment is not None
        described = wire.describe(inputs)
        for spec, offset in zip(described["tensors"], self._inputs, strict=True):
            spec["offset"] = offset
        return described | {"segment": self._number, "bytes": self._segment.size, "mapping": self._mapping}

    def _places(self, region: str, tensors: list[torch.Tensor]) -> list[int]:
        return laid([_size(t) for t in tensors], self._regions[region][0])[0]

    def _hold(self, tensors: list[torch.Tensor], places: list[int]) -> bool:
        """Whether the memory at these places has the tensors' bytes."""
        assert self._segment is not None
        for tensor, place in zip(tensors, places, strict=True):
            mine = _bytes(tensor)
            for at in range(0, mine.numel(), PIECE_BYTES):
                piece = mine[at : at + PIECE_BYTES]
                if not _same_bytes(self._segment.raw(place + at, piece.numel()), piece):
                    return False
        return True


def _same_bytes(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Of two tensors of bytes; as numbers of 64 bits, of which a GPU compares as many in a second."""
    if other.storage_offset() % _WORD or one.storage_offset() % _WORD:
        return torch.equal(one, other)
    whole = one.numel() // _WORD * _WORD
    words = (tensor[:whole].view(torch.int64) for tensor in (one, other))
    return (not whole or torch.equal(*words)) and torch.equal(one[whole:], other[whole:])


def _size(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)
