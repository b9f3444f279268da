"""Mutations that read elements from other positions: shifted, reversed, another stride or dim order."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from agent.diagnosis.mutations.groups import Change
from agent.diagnosis.wrong_references.rules import USUAL_BLOCKS

Tensor = torch.Tensor


class Changed(NamedTuple):
    """One change of a value; the placeholder in `words` takes the value's name."""

    kind: str
    words: str
    change: Change
    rank: int = 6


def of_places(value: Tensor, sizes: Sequence[int] = ()) -> Iterator[Changed]:
    """Yield changes that read the elements from other positions."""
    shift = "mask-shifted" if value.dtype is torch.bool else "index-off-by-one"
    for axis in [axis for axis in range(value.dim()) if value.shape[axis] > 1]:
        size = value.shape[axis]
        turned = lambda t, a=axis: t.flip(a)  # noqa: E731
        if size == 2:
            words = f"the two of dim {axis} of {{}} exchanged (swapped, each in the other's place)"
            yield Changed("operands-swapped", words, turned, 6)
        for step in (1, -1):
            word = "ahead" if step > 0 else "back"
            words = f"{{}} read one element {word} along dim {axis}"
            wrapped = lambda t, a=axis, s=step: t.roll(-s, a)  # noqa: E731
            if size > 2:
                yield Changed(shift, f"{words}: off by one", wrapped, 7)
            held = lambda t, a=axis, s=step: _moved(t, a, s)  # noqa: E731
            yield Changed(shift, f"{words}, the last one twice: off by one", held, 7)
            filled = lambda t, a=axis, s=step: _moved(t, a, s, filled=True)  # noqa: E731
            yield Changed(shift, f"{words}, zero past the end: off by one", filled, 7)
        if size > 2:
            yield Changed("layout-misread", f"{{}} in reverse order along dim {axis}", turned, 7)
        for place, word in ((0, "first"), (size - 1, "last")):
            kind = "first-batch-only" if axis == 0 and place == 0 and value.dim() > 1 else "index-ignored"
            alone = lambda t, a=axis, p=place: t.narrow(a, p, 1).expand_as(t).clone()  # noqa: E731
            yield Changed(kind, f"the {word} of dim {axis} of {{}} for all: the index is ignored", alone, 7)
        if size % 2 == 0 and size > 2 and value.is_floating_point():
            for kind, words, change in _halves(axis):
                yield Changed(kind, words, change, 7)
        for first in [n for n in dict.fromkeys(sizes) if 2 < n < size and size % n == 0 and size // n > 1]:
            words = f"dim {axis} of {{}} taken as {size // first} x {first} for {first} x {size // first}: "
            words += "in another order (interleaved), another layout"
            dealt = lambda t, a=axis, n=first: _dealt(t, a, n)  # noqa: E731
            yield Changed("layout-misread", words, dealt, 7)
        if value.dtype is torch.bool:
            for block in [block for block in USUAL_BLOCKS if 4 < block < size]:
                words = (
                    f"{{}} set at every {block}th of dim {axis} too: each tile (warp) of {block} begins anew"
                )
                begun = lambda t, a=axis, b=block: t | _begins(t, a, b)  # noqa: E731
                yield Changed("scan-restarts", words, begun, 7)
    yield from _of_layouts(value)


def _begins(t: Tensor, axis: int, block: int) -> Tensor:
    place = torch.arange(t.shape[axis], device=t.device) % block == 0
    return place.reshape(-1, *[1] * (t.dim() - axis - 1))


def _dense(t: Tensor) -> Tensor:
    strides = torch.empty(t.shape, device="meta").stride()
    return torch.as_strided(t, t.shape, strides, t.storage_offset()).clone()


def _strided(t: Tensor, axis: int, stride: int) -> Tensor:
    """Return the elements read with another stride along a dim, wrapping around at the end."""
    t = t.contiguous()
    place = torch.arange(t.numel(), device=t.device).reshape(t.shape)
    steps = torch.arange(t.shape[axis], device=t.device).reshape(-1, *[1] * (t.dim() - axis - 1))
    moved = place + steps * (stride - t.stride(axis))
    return t.reshape(-1)[moved % t.numel()]


def _moved(t: Tensor, axis: int, step: int, filled: bool = False) -> Tensor:
    size = t.shape[axis]
    index = torch.arange(size, device=t.device) + step
    made = t.index_select(axis, index.clamp(0, size - 1))
    if filled:
        made.select(axis, size - 1 if step > 0 else 0).zero_()
    return made


def _split(t: Tensor, axis: int, parts: int) -> Tensor:
    return t.reshape(*t.shape[:axis], parts, -1, *t.shape[axis + 1 :])


def _dealt(t: Tensor, axis: int, first: int) -> Tensor:
    return _split(t, axis, first).transpose(axis, axis + 1).flatten(axis, axis + 1)


def _halves(axis: int) -> Iterator[tuple[str, str, Change]]:
    kind = "layout-misread"
    for which, word, other in ((0, "first", "second"), (1, "second", "first")):
        words = f"the {word} half of dim {axis} of {{}} for the {other} as well: the wrong channel (index)"
        again = lambda t, w=which: torch.cat([t.chunk(2, axis)[w]] * 2, axis)  # noqa: E731
        yield "wrong-channel", words, again

    def split(t: Tensor) -> Tensor:
        return _split(t, axis, 2).transpose(axis, axis + 1).flatten(axis, axis + 1)

    def joined(t: Tensor) -> Tensor:
        return _split(t, axis, t.shape[axis] // 2).transpose(axis, axis + 1).flatten(axis, axis + 1)

    yield kind, f"the halves of dim {axis} of {{}} taken in turn (interleaved)", split
    yield kind, f"every other element of dim {axis} of {{}} first (halves for pairs)", joined


def _of_layouts(value: Tensor) -> Iterator[Changed]:
    if value.numel() > 1 and not value.is_contiguous():
        yield Changed(
            "layout-misread", "the memory of {} read as if it were dense: its strides ignored", _dense, 6
        )
    for axis in range(value.dim() - 1):
        own = value.stride(axis) if value.is_contiguous() and value.shape[axis] > 1 else 0
        for size in sorted({*value.shape} - {1, own} if own else ()):
            words = f"{{}} read with the stride {size} along dim {axis} in place of {own}"
            strided = lambda t, a=axis, s=size: _strided(t, a, s)  # noqa: E731
            yield Changed("layout-misread", words, strided, 8)
    for axis in range(value.dim()) if 2 < value.dim() <= 5 else ():
        for to in range(value.dim()):
            if abs(axis - to) > 1 and value.shape[axis] > 1:
                words = f"{{}} laid out with dim {axis} moved to {to}: in another order of dims (transposed)"
                put = lambda t, i=axis, j=to: t.movedim(i, j).contiguous().reshape(t.shape)  # noqa: E731
                yield Changed("layout-misread", words, put, 7)
    for axis in range(value.dim()):
        for other in range(axis + 1, value.dim()):
            a, b = value.shape[axis], value.shape[other]
            if a < 2 or b < 2:
                continue
            turn = lambda t, i=axis, j=other: t.transpose(i, j)  # noqa: E731
            if a == b:
                yield Changed("transposed-operand", f"{{}} transposed (dims {axis} and {other})", turn, 6)
            else:
                words = f"the memory of {{}} read with dims {axis} and {other} exchanged: transposed"
                there = lambda t, f=turn: f(t).contiguous().reshape(t.shape)  # noqa: E731
                yield Changed("layout-misread", words, there, 7)
                back = lambda t, f=turn: f(t.reshape(f(t).shape))  # noqa: E731
                yield Changed("layout-misread", words, back, 7)
