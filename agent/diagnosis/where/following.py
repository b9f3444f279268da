"""Record of what kernels wrote to device memory and by which thread, as tensors read from a replay."""

from collections.abc import Iterator
from typing import NamedTuple

import torch

Tensor = torch.Tensor
WORD = 4
"""Bytes of memory that share one cell."""
WARP = 32


class Kernel(NamedTuple):
    """One kernel launch: name and line of the kernel, grid and block sizes."""

    name: str
    line: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]


class Writers(NamedTuple):
    """Last writers of 4-byte words of memory: each field is a tensor with one entry for each word."""

    launch: Tensor
    """Number of the launch, from 1; 0 if no kernel wrote the word."""
    block: Tensor
    thread: Tensor
    times: Tensor
    """Number of earlier stores by the thread to the same allocation."""
    several: Tensor
    """True if another thread wrote the word in the same launch.

    The next field, `atomic`, is true if the last write was atomic.
    """
    atomic: Tensor

    @classmethod
    def of(cls, cells: Tensor) -> "Writers":
        """Decode int64 cells in the format of kw_writers."""
        launch, block, thread, times = (
            cells >> at & (1 << bits) - 1 for at, bits in ((52, 12), (28, 24), (18, 10), (4, 14))
        )
        return cls(launch, block, thread, times, (cells & 2).bool(), (cells & 1).bool())

    def at(self, places: Tensor) -> "Writers":
        """Return the writers of selected words, by index or mask."""
        return Writers(*(field[places] for field in self))


class Writing(NamedTuple):
    """Contents of one allocation after consecutive launches of one kernel."""

    first: int
    last: int
    """Numbers of the first and last launch, from 1."""
    piece: int
    values: Tensor
    """Bytes of the allocation after the last launch."""
    writers: Writers

    def elements(self, dtype: torch.dtype) -> Tensor | None:
        """Return the allocation as elements of a type; None if its size is no multiple of theirs."""
        size = dtype.itemsize
        return self.values.view(dtype) if self.values.numel() and self.values.numel() % size == 0 else None

    def written(self, dtype: torch.dtype) -> Tensor:
        """Return a mask of the elements that the launches wrote."""
        by_word = (self.writers.launch >= self.first) & (self.writers.launch <= self.last)
        return by_word[_words(self.values.numel() // dtype.itemsize, dtype)]

    @property
    def is_constant(self) -> bool:
        """Return True if all words that were written are equal."""
        words = self.elements(torch.int32)
        written = None if words is None else words[self.written(torch.int32)]
        return written is not None and bool((written == written[:1]).all())


class Output(NamedTuple):
    """An output after the last launch, with its writers."""

    values: Tensor
    """Elements of the output in row-major order."""
    writers: Writers
    """Writer of each element, in the same order."""


class Followed(NamedTuple):
    launches: list[Kernel]
    writings: list[Writing]
    outputs: list[Output]
    operators: bool = False
    """True if torch computes something between or after the launches."""

    def kernel(self, launch: int) -> Kernel:
        return self.launches[launch - 1]

    def by_launch(self) -> Iterator[tuple[int, list[Writing]]]:
        """Yield the first launch number of each run of launches of one kernel, with what the run wrote."""
        for first in sorted({writing.first for writing in self.writings}):
            yield first, [writing for writing in self.writings if writing.first == first]


def output(values: Tensor, cells: Tensor, dtype: torch.dtype, shape: list[int], strides: list[int]) -> Output:
    """Build an output from the bytes and cells between its first and last element."""
    places = torch.zeros((), dtype=torch.int64)
    for size, step in zip(shape, strides, strict=True):
        places = places.unsqueeze(-1) + torch.arange(size) * step
    places = places.reshape(-1)
    elements = values.view(dtype)[places] if places.numel() else values.view(dtype)
    return Output(elements.reshape(shape), Writers.of(cells).at(places * dtype.itemsize // WORD))


def _words(count: int, dtype: torch.dtype) -> Tensor:
    """Return the index of the word in which each of `count` elements begins."""
    return torch.arange(count) * dtype.itemsize // WORD
