"""Elements that a parallel sum loses: whole lanes, warps, strides, and the last partial block.

Each such loss is a mask over the reduced elements in memory order, for the block sizes a candidate may use.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch

from agent.diagnosis.wrong_references.rules import Facts

WARP = 32


class Kept(NamedTuple):
    """Subset of elements that a reduction keeps, with the kind and words of the fault."""

    kind: str
    words: str
    mask: torch.Tensor
    rank: int


def kept(count: int, facts: Facts) -> Iterator[Kept]:
    """Yield each proper, non-empty subset of `count` elements that a common fault keeps, once."""
    seen = {b"\x01" * count, b"\x00" * count}
    for candidate in _subsets(count, facts):
        key = candidate.mask.numpy().tobytes()
        if key not in seen:
            seen.add(key)
            yield candidate


def _subsets(count: int, facts: Facts) -> Iterator[Kept]:
    place = torch.arange(count)
    if facts.warps and count > WARP:
        # The first warp of the first block holds the first elements, which a source without warps would not
        # single out.
        for block in [size for size in facts.blocks() if size > WARP]:
            words = f"of what the first warp of a block of {block} threads holds: other partial sums are lost"
            yield Kept("partial-sums-not-combined", words, place % block < WARP, 1)
    if count > 1:
        yield Kept("last-element-left-out", "without the last element", place < count - 1, 0)
        yield Kept("last-element-left-out", "without the first element", place > 0, 0)
    for block in facts.blocks():
        whole = count // block * block
        words = f"without the last elements, those after the last full {block}"
        yield Kept("lost-last-block", words, place < whole, 1)
        yield Kept("lost-last-block", f"of the first {block} elements alone", place < block, 2)
        words = f"of the last tile (block) of {block} alone: what earlier ones held is lost"
        yield Kept("partial-sums-not-combined", words, place >= (count - 1) // block * block, 2)
    for block in [size for size in facts.blocks() if size >= WARP]:
        yield from _lanes(place % block, block)
    yield Kept("lost-last-block", "of the first half of the elements", place < count // 2, 3)
    yield Kept("lost-lanes", "of every second element", place % 2 == 0, 3)
    yield Kept("last-element-left-out", "of the first element alone", place < 1, 3)


def _lanes(thread: torch.Tensor, block: int) -> Iterator[Kept]:
    lane = thread % WARP
    for lanes in (16, 8, 4, 2, 1):
        words = (
            f"with lanes 0..{lanes - 1} of each warp alone: the other lanes of a block of {block} are lost"
        )
        yield Kept("lost-lanes", words, lane < lanes, 1)
        words = f"without lanes 0..{lanes - 1} of each warp of a block of {block}"
        yield Kept("lost-lanes", words, lane >= lanes, 3)
    if block > WARP:
        words = f"of what the first warp of a block of {block} threads holds"
        yield Kept("partial-sums-not-combined", words, thread < WARP, 1)
        words = f"without what the last warp of a block of {block} threads holds"
        yield Kept("lost-lanes", words, thread < block - WARP, 1)
        words = f"without what the first warp of a block of {block} threads holds"
        yield Kept("lost-lanes", words, thread >= WARP, 2)
        words = f"of what the first half of a block of {block} threads holds"
        yield Kept("lost-lanes", words, thread < block // 2, 1)
    yield Kept("lost-lanes", f"of what thread 0 of a block of {block} holds", thread == 0, 2)
