"""What kernels wrote to device memory, and which thread wrote it: tensors of what a replay has told."""

from collections.abc import Iterator
from typing import NamedTuple

import torch

Tensor = torch.Tensor
WORD = 4
"""Bytes that have one cell."""
WARP = 32


class Kernel(NamedTuple):
    """One launch."""

    name: str
    line: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]


class Writers(NamedTuple):
    """For each of some words who wrote it last, as whole numbers of int64."""

    launch: Tensor
    """From 1; 0 where no kernel did."""
    block: Tensor
    thread: Tensor
    times: Tensor
    """Stores that the thread had made to the same allocation before."""
    several: Tensor
    """Whether another thread wrote the word in the same launch (boolean), and whether the last write was
    atomic.
    """
    atomic: Tensor

    @classmethod
    def of(cls, cells: Tensor) -> "Writers":
        """From cells as kw_writers tells them, in int64."""
        launch, block, thread, times = (
            cells >> at & (1 << bits) - 1 for at, bits in ((52, 12), (28, 24), (18, 10), (4, 14))
        )
        return cls(launch, block, thread, times, (cells & 2).bool(), (cells & 1).bool())

    def at(self, places: Tensor) -> "Writers":
        """Of these words, or those that a mask has."""
        return Writers(*(field[places] for field in self))


class Writing(NamedTuple):
    """What launches of one kernel that follow each other left in one piece of memory."""

    first: int
    last: int
    """Numbers of the launches, from 1."""
    piece: int
    values: Tensor
    """Its bytes after the last launch."""
    writers: Writers

    def elements(self, dtype: torch.dtype) -> Tensor | None:
        """The piece as elements of a type; None where it holds no whole number of them."""
        size = dtype.itemsize
        return self.values.view(dtype) if self.values.numel() and self.values.numel() % size == 0 else None

    def written(self, dtype: torch.dtype) -> Tensor:
        """Which of these elements the launches wrote."""
        by_word = (self.writers.launch >= self.first) & (self.writers.launch <= self.last)
        return by_word[_words(self.values.numel() // dtype.itemsize, dtype)]

    @property
    def is_constant(self) -> bool:
        """Whether all words that were written are the same."""
        words = self.elements(torch.int32)
        written = None if words is None else words[self.written(torch.int32)]
        return written is not None and bool((written == written[:1]).all())


class Output(NamedTuple):
    """An output after the last step."""

    values: Tensor
    """Row by row."""
    writers: Writers
    """Of each element, in the same order."""


class Followed(NamedTuple):
    launches: list[Kernel]
    writings: list[Writing]
    outputs: list[Output]
    operators: bool = False
    """Whether torch computes something between launches or after them."""

    def kernel(self, launch: int) -> Kernel:
        return self.launches[launch - 1]

    def by_launch(self) -> Iterator[tuple[int, list[Writing]]]:
        """Each run of launches of one kernel, in order, by the number of its first, with what it wrote."""
        for first in sorted({writing.first for writing in self.writings}):
            yield first, [writing for writing in self.writings if writing.first == first]


def output(values: Tensor, cells: Tensor, dtype: torch.dtype, shape: list[int], strides: list[int]) -> Output:
    """From the bytes and the cells between an output's first and last element."""
    places = torch.zeros((), dtype=torch.int64)
    for size, step in zip(shape, strides, strict=True):
        places = places.unsqueeze(-1) + torch.arange(size) * step
    places = places.reshape(-1)
    elements = values.view(dtype)[places] if places.numel() else values.view(dtype)
    return Output(elements.reshape(shape), Writers.of(cells).at(places * dtype.itemsize // WORD))


def _words(count: int, dtype: torch.dtype) -> Tensor:
    """Of each of so many elements the word that it begins in."""
    return torch.arange(count) * dtype.itemsize // WORD
