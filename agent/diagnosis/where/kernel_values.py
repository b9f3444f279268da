"""Matching of memory that a kernel wrote with values of the reference.

Values match up to rounding, in any layout, or through a simple function.
"""

import math
import time
from collections.abc import Callable, Iterator
from itertools import permutations
from typing import NamedTuple

import torch

from agent.diagnosis.where.following import WORD, Followed, Writing
from agent.diagnosis.where.values import Value

Tensor = torch.Tensor
CLOSE = {torch.float64: 1e-5, torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}
"""Allowed rounding error, relative to the element's magnitude plus the rms of all elements."""
FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
INTEGERS = (torch.int32, torch.int64, torch.uint8)
SAMPLE = 128
PARTS = 8
"""Maximum number of values that lie side by side in one allocation."""
ENOUGH = 8
"""Minimum number of elements from which a factor is determined."""
MOST_DIMS = 4
LEAST = 0.5
"""Minimum share of agreeing elements to report a value as partly written."""


class Held(NamedTuple):
    """A value of the reference that a kernel wrote."""

    value: Value
    relation: str
    """Words that follow the value's name; empty if the kernel wrote the value itself."""
    is_itself: bool
    """True if the kernel wrote the value or a lossless function of it, without factor or reduced precision.
    """
    wrong: Tensor | None = None
    """Mask of the wrong elements in the reference's memory order; None if all elements are right."""

    @property
    def told(self) -> str:
        return f"{self.value.told}{self.relation}"


_FUNCTIONS: tuple[tuple[str, Callable[[Tensor], Tensor]], ...] = (
    ("", lambda v: v),
    (" as its root", torch.sqrt),
    (" as its square", torch.square),
    (" as its reciprocal", torch.reciprocal),
    (" as its reciprocal root", torch.rsqrt),
)


def held(writing: Writing, values: list[Value], sizes: set[int]) -> list[Held]:
    """Return the values that one kernel's launches left in one allocation.

    `sizes` are dimension sizes by which factors are recognised.
    """
    found: list[Held] = []
    for dtype in (*FLOATS, *INTEGERS):
        elements = writing.elements(dtype)
        if elements is None:
            continue
        mask = writing.written(dtype)
        # Every other half of a float32 is a bfloat16 of nearly the same value.
        most = PARTS if dtype.itemsize >= WORD else 1
        parts = list(_parts(elements[mask], {value.tensor.numel() for value in values}, most))
        for value in values:
            if value.tensor.is_floating_point() != (dtype in FLOATS):
                continue
            one = _among(
                value, [part for part in parts if part.numel() == value.tensor.numel()], dtype, sizes
            )
            found += [one] if one is not None else []
        if found:
            return found
    return found


def _parts(written: Tensor, wanted: set[int], most: int) -> Iterator[Tensor]:
    """Yield the written elements as a whole, then each of n equal parts, contiguous or strided by n."""
    count = written.numel()
    if count in wanted:
        yield written.double()
    for parts in range(2, most + 1):
        if count % parts == 0 and count // parts in wanted:
            yield from written.reshape(parts, -1).double()
            yield from written.reshape(-1, parts).t().double()


def _among(value: Value, parts: list[Tensor], dtype: torch.dtype, sizes: set[int]) -> Held | None:
    """Find a part that holds the value, testing a sample before the whole.

    Functions and multiples are only looked for in the value's own layout.
    """
    close = CLOSE.get(dtype, 0.0)
    flat = value.tensor.detach().reshape(-1)
    shape = tuple(size for size in value.tensor.shape if size > 1)
    own, *turned = _orders(shape)
    functions = _FUNCTIONS if value.tensor.is_floating_point() else _FUNCTIONS[:1]
    tries = [(own, words, function) for words, function in functions]
    size = float(torch.linalg.vector_norm(flat.double()))
    places = torch.arange(0, flat.numel(), max(1, flat.numel() // SAMPLE))
    for w in parts:
        # Transposing keeps the norm.
        as_large = turned and math.isclose(float(torch.linalg.vector_norm(w)), size, rel_tol=10 * close)
        for order, words, function in [*tries, *((order, *_FUNCTIONS[0]) for order in turned if as_large)]:
            some = flat[_original(places, shape, order)].double()
            relation = _relation(w[places], function(some), close, sizes)
            if relation is None:
                continue
            whole = function(flat.reshape(shape).permute(order).reshape(-1).double())
            if relation == _relation(w, whole, close, sizes):
                short = f" in {str(dtype)[6:]}" if dtype in (torch.float16, torch.bfloat16) else ""
                return Held(value, words + relation + short, not relation and not short)
    return None


def _orders(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the orders of the dimensions, the tensor's own first."""
    own = tuple(range(len(shape)))
    yield from permutations(own) if len(shape) <= MOST_DIMS else (own,)


def _original(places: Tensor, shape: tuple[int, ...], order: tuple[int, ...]) -> Tensor:
    """Convert positions in the permuted tensor's memory to positions in the tensor itself."""
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    found, left = torch.zeros_like(places), places
    for axis in reversed(order):
        found, left = found + left % shape[axis] * strides[axis], left // shape[axis]
    return found


def laid_out(w: Tensor, truth: Tensor, close: float) -> Iterator[Tensor]:
    """Yield the elements in the shape of `truth`: as written, then with each fitting transposition undone.

    A transposition fits if at least LEAST of a sample agree.
    """
    yield w.reshape(truth.shape)
    flat, shape = truth.detach().reshape(-1), tuple(size for size in truth.shape if size > 1)
    places = torch.arange(0, flat.numel(), max(1, flat.numel() // SAMPLE))
    for order in list(_orders(shape))[1:]:
        some = flat[_original(places, shape, order)].double()
        if float(near(w[places], some, close).double().mean()) >= LEAST:
            back = w.reshape([shape[axis] for axis in order])
            yield back.permute([order.index(axis) for axis in range(len(shape))]).reshape(truth.shape)


def _relation(w: Tensor, v: Tensor, close: float, sizes: set[int]) -> str | None:
    """Return how `w` relates to `v` (itself, negated, times a known factor), or None."""
    if bool(near(w, v, close).all()):
        return ""
    if not close or v.numel() < ENOUGH or not bool(torch.isfinite(v).all()):
        return None
    square = float(v.square().sum())
    factor = float((w * v).sum()) / square if square else 0.0
    if not math.isfinite(factor) or factor == 0.0 or not bool(near(w, factor * v, close).all()):
        return None
    named = _factor(factor, sizes, close)
    return None if named is None else f" {named}"


def near(w: Tensor, v: Tensor, close: float) -> Tensor:
    """Return a mask of the elements that are equal up to rounding."""
    finite = v[torch.isfinite(v)]
    size = float(finite.square().mean().sqrt()) if finite.numel() else 0.0
    same = (w == v) | (w.isnan() & v.isnan())
    return same | ((w - v).abs() <= close * (v.abs() + size))


def _factor(factor: float, sizes: set[int], close: float) -> str | None:
    """Name a factor that another way of computing the same value produces; None for other factors."""
    if math.isclose(factor, -1.0, rel_tol=close):
        return "negated"
    for size in sorted(sizes):
        for words, number in (
            (f"times {size}", float(size)), (f"divided by {size}", 1 / size),
            (f"times the root of {size}", size**0.5), (f"divided by the root of {size}", size**-0.5),
        ):  # fmt: skip
            if math.isclose(factor, number, rel_tol=close):
                return words
    for words, number in (
        ("in base 2", 1 / math.log(2)),
        ("in base e", math.log(2)),
        ("doubled", 2.0),
        ("halved", 0.5),
    ):
        if math.isclose(factor, number, rel_tol=close):
            return words
    return None


def partly(writing: Writing, values: list[Value]) -> Held | None:
    """Return the value with the largest share of correctly written elements, above LEAST and below 1."""
    best, share = None, LEAST
    for dtype in FLOATS:
        elements = writing.elements(dtype)
        if elements is None:
            continue
        mask = writing.written(dtype)
        for value in (one for one in values if one.tensor.numel() == elements.numel()):
            v = value.tensor.detach().double().reshape(-1)
            # Another kernel may write the elements that are not written here.
            wrong = ~near(elements.double(), v, CLOSE[dtype]) & mask
            agreeing = 1.0 - float(wrong.sum()) / max(int(mask.sum()), 1)
            if share < agreeing < 1.0:
                best, share = Held(value, "", False, wrong), agreeing
    return best


def sizes(tensors: list[Tensor]) -> set[int]:
    """Return the dimension sizes and the products of adjacent ones, above 1."""
    found: set[int] = set()
    for tensor in tensors:
        shape = tuple(tensor.shape)
        for begin in range(len(shape)):
            for end in range(begin + 1, len(shape) + 1):
                found.add(math.prod(shape[begin:end]))
    return {size for size in found if size > 1}


def everywhere(
    followed: Followed, values: list[Value], known: set[int], until: float = math.inf
) -> dict[int, list[Held]]:
    """Return the values that each writing holds, by its number.

    After `until` (the thread's CPU clock, in seconds) the remaining writings are reported as empty.
    """
    return {
        number: held(writing, values, known) if time.thread_time() < until else []
        for number, writing in enumerate(followed.writings)
    }
