"""The oracle's side of tensor exchange with a candidate: files on a CPU, shared memory on a GPU.

Both transports pass the inputs of a draw, copy the resulting outputs, and report tensors that the candidate
must not change but did. Outputs are read as raw bytes. Their places and sizes follow from the reference's own
tensors, never from the candidate's statements.
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
    """Tensors that a candidate may change because the reference changes them too."""

    written: set[str]
    """Tensors that the reference writes to: names of parameters and buffers, or `input`."""
    shared: list[list[str]]
    """For each output of the reference, the kinds of tensors it shares memory with.

    The next draw may overwrite an output that shares memory.
    """


class Exchange(Protocol):
    """Transport of the tensors of one draw."""

    def give(self, inputs: Any, like: Any, state: State, *, stem: str, in_place: bool) -> dict[str, Any]:
        """Pass the inputs and return their description for the worker.

        `like` is an output of the reference. With `in_place`, the inputs take the memory of the previous
        draw.
        """
        ...

    def give_state(self, state: State, stem: str) -> dict[str, Any]:
        """Pass parameters and buffers and return their description for the worker."""
        ...

    def refresh(self, inputs: Any) -> None:
        """Write other values into the memory of the present inputs. Supported on a GPU only."""
        ...

    def rows(self, inputs: Any, like: Any, *, least: int, most: int) -> Rows:
        """Return the memory for calls in a row. Supported on a GPU only."""
        ...

    def outputs(self, description: dict[str, Any], like: Any) -> Any:
        """Return the outputs that the worker described.

        Raises WireError if the description does not match the tensors.
        """
        ...

    def changed(
        self, inputs: Any, earlier: Any, state: State, claims: Claims, excepted: Excepted
    ) -> Iterator[str]:
        """Yield each of `input`, `parameter` and `earlier output` whose bytes have changed."""
        ...

    def written_bands(self, claims: Claims) -> Any:
        """Return the indices of inputs whose guard bands, the memory around them, were written."""
        ...


class Files:
    """Exchange of tensors as files of raw bytes in the candidate's folder."""

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
            # A candidate that packs a parameter may replace it. A parameter that exists must be unchanged.
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
            # The candidate's process writes the file, so a missing file is not an error of this process.
            raise wire.WireError(f"tensor file {file} is missing") from None
        if size != given.numel():
            return True
        return not torch.equal(wire.read_tensor(self._folder / file, tuple(given.shape), "uint8"), given)


class SharedMemory:
    """Exchange through GPU memory that the workers map as well.

    One allocation holds the inputs, outputs, earlier outputs and parameters of a call. A worker maps it at
    two addresses, so that the inputs' address can change between draws. `descriptors` are local sockets,
    through each of which a worker gets the memory. `give` raises MemoryError if the GPU lacks memory.
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
        """Index of the worker's mapping, 0 or 1, in which the worker finds the present inputs."""
        self._given_state: tuple[int, list[int], Segment] | None = None
        """Memory of the parameters that the candidate's worker has: its number, tensor sizes, segment."""

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
        """Copy the parameters to memory that the candidate's worker maps; equal sizes reuse the memory."""
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
        """Return True if the shared memory at `places` holds the bytes of `tensors`."""
        assert self._segment is not None
        for tensor, place in zip(tensors, places, strict=True):
            mine = _bytes(tensor)
            for at in range(0, mine.numel(), PIECE_BYTES):
                piece = mine[at : at + PIECE_BYTES]
                if not _same_bytes(self._segment.raw(place + at, piece.numel()), piece):
                    return False
        return True


def _same_bytes(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return True if two byte tensors are equal.

    They are compared as 64-bit words, since a GPU compares as many words per second as bytes.
    """
    if other.storage_offset() % _WORD or one.storage_offset() % _WORD:
        return torch.equal(one, other)
    whole = one.numel() // _WORD * _WORD
    words = (tensor[:whole].view(torch.int64) for tensor in (one, other))
    return (not whole or torch.equal(*words)) and torch.equal(one[whole:], other[whole:])


def _size(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)
