"""Search for the threads that wrote the wrong elements, if they are not the writers of the right elements."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch

from agent.diagnosis.where.following import WARP, Followed, Kernel, Output, Writers

Tensor = torch.Tensor
MOSTLY = 0.9
"""Minimum wrong share of what the named threads wrote; some values may be right by chance."""
LEAST = 2
"""Minimum number of wrong elements, and of right ones."""
LISTED = 4
"""Maximum number of values listed one by one."""


SEVERAL = "by two or more threads each, and the last one wins"


class _Quantity(NamedTuple):
    """A numeric property of writers, such as the index of the block, and its name."""

    name: str
    value: Tensor
    size: int
    """Exclusive upper bound of the property's values."""
    last: str = ""
    """Name of the property's largest value, such as `the last block`."""


def pattern(wrong: Tensor, output: Output, followed: Followed) -> str | None:
    """Return words that complete "the wrong elements were written ...", or None.

    None means that no property of the writers separates wrong from right elements. `wrong` is flat and
    boolean.
    """
    writers = output.writers
    if int(wrong.sum()) < LEAST or int((~wrong).sum()) < LEAST:
        return None
    nobody = writers.launch == 0
    if bool((nobody == wrong).all()):
        return "by no thread"
    by_launch = _by_launch(wrong & ~nobody, writers, followed)
    if by_launch is not None and bool((wrong & nobody).any()):
        return None
    if by_launch is not None:
        return by_launch
    launches = set(writers.launch[wrong].tolist())
    if len(launches) > 1 or bool(nobody[wrong].any()):
        return None
    number = int(launches.pop())
    here = writers.launch == number
    return _within(wrong[here], writers.at(here), followed.kernel(number))


def _by_launch(wrong: Tensor, writers: Writers, followed: Followed) -> str | None:
    """Return words if the wrong elements are all those of one kernel among several."""
    numbers = sorted(set(writers.launch.tolist()) - {0})
    names = {number: followed.kernel(number).name for number in numbers}
    if len(set(names.values())) < 2:
        return None
    for name in dict.fromkeys(names.values()):
        own = torch.isin(writers.launch, torch.tensor([n for n in numbers if names[n] == name]))
        if bool((own == wrong).all()):
            return f"by kernel `{name}`, the others by {_listed([n for n in names.values() if n != name])}"
    return None


def _listed(names: list[str]) -> str:
    return " and ".join(f"`{name}`" for name in dict.fromkeys(names))


def _within(wrong: Tensor, writers: Writers, kernel: Kernel) -> str | None:
    if bool((writers.several == wrong).all()):
        return "by several threads each" if bool(writers.atomic.any()) else SEVERAL
    if bool(writers.atomic.any()):
        return None
    quantities = list(_quantities(writers, kernel))
    told = (_told(wrong, quantity, listed) for listed in (False, True) for quantity in quantities)
    return next((words for words in told if words is not None), None)


def _quantities(writers: Writers, kernel: Kernel) -> Iterator[_Quantity]:
    """Yield the properties of writers, the simpler ones first."""
    blocks, threads = _count(kernel.grid), _count(kernel.block)
    grid, block = kernel.grid, kernel.block
    if blocks > 1:
        yield _Quantity("block {}", writers.block, blocks, "the last block")
        for axis, index in zip("xyz", _split(writers.block, grid), strict=True):
            if 1 < grid["xyz".index(axis)] < blocks:
                yield _Quantity(f"blocks with blockIdx.{axis} {{}}", index, grid["xyz".index(axis)])
    if threads > 1:
        for axis, index in zip("xyz", _split(writers.thread, block), strict=True):
            if block["xyz".index(axis)] > 1:
                yield _Quantity(f"threads with threadIdx.{axis} {{}}", index, block["xyz".index(axis)])
        if threads > WARP:
            yield _Quantity("lane {}", writers.thread % WARP, WARP)
            yield _Quantity("warp {}", writers.thread // WARP, -(-threads // WARP), "the last warp")
    if int(writers.times.max()) > 0:
        yield _Quantity("store {} of each thread", writers.times, int(writers.times.max()) + 1)


def _count(size: tuple[int, int, int]) -> int:
    return size[0] * size[1] * size[2]


def _split(index: Tensor, size: tuple[int, int, int]) -> tuple[Tensor, Tensor, Tensor]:
    return index % size[0], index // size[0] % size[1], index // (size[0] * size[1])


def _told(wrong: Tensor, quantity: _Quantity, listed: bool) -> str | None:
    """Describe the property's values whose writers wrote the wrong elements and hardly any right ones."""
    count = int(quantity.value.max()) + 1
    every = torch.bincount(quantity.value, minlength=count)
    bad = torch.bincount(quantity.value[wrong], minlength=count)
    present, hit = every > 0, bad > 0
    if bool((hit == present).all()):
        return None
    written = int(every[hit].sum())
    if int(wrong.sum()) < MOSTLY * written:
        return None
    chosen, values = hit.nonzero().reshape(-1).tolist(), present.nonzero().reshape(-1).tolist()
    words = _each(chosen, quantity) if listed else _which(chosen, values, quantity)
    if words is None:
        return None
    exact = written == int(wrong.sum())
    return f"by {words}" + ("" if exact else f" ({int(wrong.sum())} of the {written} that they wrote)")


def _which(hit: list[int], present: list[int], quantity: _Quantity) -> str | None:
    """Describe the property values of wrong elements as one comparison; None if there is none."""
    compared: Callable[[str], str] = quantity.name.format
    is_index = "{}" in quantity.name and "Idx" in quantity.name
    if len(hit) == 1:
        if quantity.last and hit[0] == quantity.size - 1:
            return quantity.last
        if quantity.name.startswith("store"):
            return f"the {_ordinal(hit[0])} store of each thread"
        return compared(f"== {hit[0]}" if is_index else str(hit[0]))
    chosen = set(hit)
    rest = [value for value in present if value not in chosen]
    if min(hit) > max(rest):
        return _bound(quantity, ">=", min(hit))
    if max(hit) < min(rest):
        return _bound(quantity, "<", max(hit) + 1)
    for parity, word in ((1, "odd"), (0, "even")):
        if all(value % 2 == parity for value in hit) and all(value % 2 != parity for value in rest):
            return compared(word) if is_index else f"{_plural(quantity)} of {word} number"
    if len(rest) == 1:
        return compared(f"!= {rest[0]}") if is_index else f"all {_plural(quantity)} but {rest[0]}"
    return None


def _each(hit: list[int], quantity: _Quantity) -> str | None:
    """List the property values of wrong elements one by one; None if there are too many."""
    numbers = ", ".join(map(str, hit))
    if len(hit) > LISTED:
        return None
    return (
        quantity.name.format(f"in {numbers}") if "Idx" in quantity.name else f"{_plural(quantity)} {numbers}"
    )


def _bound(quantity: _Quantity, sign: str, bound: int) -> str:
    if "Idx" in quantity.name:
        return quantity.name.format(f"{sign} {bound}")
    if quantity.name.startswith("store"):
        first = (
            "stores of each thread after its first"
            if bound == 1
            else f"stores of each thread from the {_ordinal(bound)} on"
        )
        return first if sign == ">=" else f"the first {bound} stores of each thread"
    return f"{_plural(quantity)} from {bound} on" if sign == ">=" else f"{_plural(quantity)} before {bound}"


def _plural(quantity: _Quantity) -> str:
    return quantity.name.split(" ")[0] + "s"


def _ordinal(place: int) -> str:
    number = place + 1
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10 if number % 100 not in (11, 12, 13) else 0, "th")
    return f"{number}{ending}"
