"""Patterns of the wrong elements in index space, in words.

Patterns are searched along each dimension and in memory order, using the block sizes in the candidate's
source. A pattern alone names no cause, unless nothing wrote the elements.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch

Tensor = torch.Tensor
WARP = 32
MOSTLY = 0.9
"""Minimum wrong share of a region that is called wrong; some values may be right by chance."""


LISTED = 4
"""Maximum number of indices with correct results that are listed."""


class Pattern(NamedTuple):
    """A property that the wrong elements share."""

    words: str
    """Words that complete "the wrong elements are ..."."""
    kind: str | None = None
    """Kind of fault if nothing wrote the elements or all of them hold one value; None if it is unknown."""
    region: bool = True
    """True if the words determine the elements; False if they only name indices of scattered elements."""


def patterns(wrong: Tensor, blocks: Iterable[int], alike: Tensor | None = None) -> Iterator[Pattern]:
    """Yield every pattern that fits, the most telling first.

    `wrong` has the output's shape and at least one wrong element. `blocks` holds sizes of blocks and tiles,
    the likelier ones first. `alike` marks the elements, in memory order, that hold the same value as the
    wrong ones; some of them may be right by chance.
    """
    if bool(wrong.all()):
        yield Pattern("all elements")
        return
    tail = _tail(wrong.reshape(-1), blocks, alike)
    if tail is not None and "partial block" in tail.words:
        yield tail
    if wrong.dim() > 1:
        for sample in _samples(wrong):
            yield _filled(sample, wrong, alike, 0) or sample
    if tail is not None:
        yield tail
    for axis in reversed(range(wrong.dim())):
        if wrong.shape[axis] > 1:
            found = _filled(_along(wrong, axis), wrong, alike, axis)
            if found is not None:
                yield found
    borders = _borders(wrong)
    if borders is not None:
        yield borders
    lanes = _lanes(wrong.reshape(-1))
    if lanes is not None:
        yield lanes


def _samples(wrong: Tensor) -> Iterator[Pattern]:
    hit = _hit(wrong, 0)
    if not hit[0] and all(hit[1:]) and len(hit) > 1:
        words = f"in every sample but the first (dim 0: 1..{len(hit) - 1}); the first sample is right"
        yield Pattern(words, "first-batch-only")
    elif sum(hit) == 1 and len(hit) > 1:
        place = hit.index(True)
        yield Pattern(f"in one sample only: index {place} of dim 0", "lost-last-block" if hit[-1] else None)


def _filled(pattern: Pattern | None, wrong: Tensor, alike: Tensor | None, axis: int) -> Pattern | None:
    """Return the pattern, without its cause if only some elements of its region are wrong."""
    if pattern is None or pattern.kind is None:
        return pattern
    full = wrong if alike is None else alike.reshape(wrong.shape)
    hit = torch.tensor(_hit(wrong, axis), device=wrong.device)
    share = float(full.movedim(axis, 0)[hit].double().mean())
    return pattern if share >= MOSTLY else pattern._replace(kind=None)


def _hit(wrong: Tensor, axis: int) -> list[bool]:
    others = [other for other in range(wrong.dim()) if other != axis]
    hit = wrong.amax(dim=others) if others else wrong
    return [bool(flag) for flag in hit.tolist()]


def _tail(flat: Tensor, blocks: Iterable[int], alike: Tensor | None) -> Pattern | None:
    first, total = int(flat.to(torch.uint8).argmax()), flat.numel()
    earliest = first
    if alike is not None and bool(alike[first:].all()):
        other = (~alike).nonzero()
        earliest = int(other[-1]) + 1 if other.numel() else 0
    elif float(flat[first:].double().mean()) < MOSTLY:
        return None
    if first == 0:
        return None
    sizes = [size for size in blocks if size > 1]
    fitting = [size for size in sizes if first // size * size >= max(earliest, 1)]
    partial = (size for size in fitting if size >= WARP and total - first // size * size < size)
    block = next(partial, max(fitting, default=None))
    begin = first // block * block if block is not None else first
    left = total - begin
    words = f"all after flat index {begin}: the last {left} of {total} elements"
    if block is not None:
        words += f"; {begin} = {begin // block} * {block}" + (
            f", the last partial block (tile) of {block}" if left < block else ""
        )
    return Pattern(words, "last-element-left-out" if left == 1 else "lost-last-block")


def _along(wrong: Tensor, axis: int) -> Pattern | None:
    """Find a run of indices, every n-th index, or one index along a dimension."""
    hit = _hit(wrong, axis)
    size, places = len(hit), [place for place, flag in enumerate(hit) if flag]
    if len(places) == size:
        return None
    low, high = places[0], places[-1]
    name = f"dim {axis} (size {size})"
    if len(places) == 1:
        kind = "last-element-left-out" if low == size - 1 else None
        end = ", the last" if low == size - 1 else ", the first" if low == 0 else ""
        return Pattern(f"at index {low} of {name} only{end}", kind)
    if high - low + 1 == len(places):
        if high == size - 1:
            return Pattern(f"from index {low} of {name} on: its last {size - low}", "lost-last-block")
        return Pattern(f"at indices {low}..{high} of {name} only")
    steps = {b - a for a, b in zip(places, places[1:], strict=False)}
    if len(steps) == 1:
        step = steps.pop()
        ordinal = {2: "2nd", 3: "3rd"}.get(step, f"{step}th")
        return Pattern(f"at every {ordinal} index of {name}, from {low} on", "lost-lanes")
    right = [str(place) for place, flag in enumerate(hit) if not flag]
    if len(right) <= LISTED < len(places):
        return Pattern(f"at every index of {name} but {', '.join(right)}", region=False)
    return Pattern(f"at {len(places)} of the indices of {name}", region=False)


def _borders(wrong: Tensor) -> Pattern | None:
    """Return the pattern of errors only at the first or last index of one of the last two dimensions."""
    if wrong.dim() < 3 or min(wrong.shape[-2:]) < 3:
        return None
    inside = wrong[..., 1:-1, 1:-1]
    return None if bool(inside.any()) else Pattern("at the borders of the last two dims only")


def _lanes(flat: Tensor) -> Pattern | None:
    """Return the pattern that the same lanes are wrong in every 32 elements in memory."""
    if flat.numel() < 128:
        return None
    lanes = flat[: flat.numel() // 32 * 32].reshape(-1, 32).double().mean(0)
    lost = [lane for lane in range(32) if float(lanes[lane]) >= MOSTLY]
    if not lost or len(lost) == 32 or float(lanes[[lane not in lost for lane in range(32)]].max()) > 0:
        return None
    words = f"at lanes {lost[0]}..{lost[-1]} of every 32 neighbours in memory: part of each warp"
    return Pattern(words, "lost-lanes")
