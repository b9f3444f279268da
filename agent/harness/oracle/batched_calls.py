"""Shared GPU memory for calls in a row, each with its own inputs and its own place for outputs.

The oracle writes all inputs before the row and reads any of the outputs after it. No call can therefore reuse
the result of an earlier one, and every output has to be computed within the timed row. The inputs of later
calls are visible from the beginning, though (docs/adr/0011).
"""

import socket
from typing import Any

import torch

from agent.harness.truth.draws import tree_map
from agent.harness.worker import wire
from agent.harness.worker.memory_guards import leaves
from agent.harness.worker.shared_memory import Segment, blank, laid

ROW_BYTES = 4 << 30
SHARE = 8
"""Divisor of free GPU memory that limits the size of rows, since the candidate needs memory as well."""


class Rows:
    """Row of `calls` calls, with memory for each call's inputs and outputs.

    `calls` is 0 if the tensors of `least` calls exceed the allowed memory. Raises MemoryError if the GPU has
    too little memory.
    """

    def __init__(
        self, workers: list[socket.socket], inputs: Any, like: Any, *, least: int, most: int
    ) -> None:
        """Allocate the row and hand its memory to each of the `workers`.

        `like` is an output of the reference.
        """
        given, wanted = wire.describe(inputs), wire.describe(like)
        sizes = [[t.numel() * t.element_size() for t in leaves(value)] for value in (inputs, like)]
        each = sum(laid(group, 0)[1] for group in sizes)
        self.calls = min(most, min(ROW_BYTES, Segment.free() // SHARE) // each)
        if self.calls < least:
            self.calls = 0
            return
        self._places: list[tuple[list[int], list[int]]] = []
        end = 0
        for _ in range(self.calls):
            first, end = laid(sizes[0], end)
            second, end = laid(sizes[1], end)
            self._places.append((first, second))
        self._like = like
        self._segment = Segment.made(end)
        blank(self._segment)
        for worker in workers:
            self._segment.hand_over(worker)
        self.described = {
            "bytes": self._segment.size, "tree": given["tree"], "inputs": given["tensors"],
            "outputs": wanted["tensors"], "places": self._places,
        }  # fmt: skip
        """Layout of the row's memory, for the workers."""

    def fill(self, number: int, inputs: Any) -> None:
        """Write the inputs of call `number` to its memory in the row."""
        for tensor, place in zip(leaves(inputs), self._places[number][0], strict=True):
            self._segment.tensor(place, tensor.shape, tensor.dtype).copy_(tensor)

    def outputs(self, number: int) -> Any:
        """Return a copy of the memory assigned to the outputs of call `number`."""
        places = iter(self._places[number][1])
        segment = self._segment
        return tree_map(lambda t: segment.tensor(next(places), t.shape, t.dtype).clone(), self._like)

    def forget(self) -> None:
        """Overwrite the memory of all outputs, so that an earlier row's results do not count for the next."""
        for _, places in self._places:
            for place, tensor in zip(places, leaves(self._like), strict=True):
                size = tensor.numel() * tensor.element_size()
                self._segment.raw(place, size).fill_(255)
        torch.cuda.synchronize()
