"""Sizes and indices of tensors, of several traces at once.

A `Dim` is one size at every traced point of a problem. `(128, 4)` is 128 in the reference and 4 in a smaller
copy. Sizes that are equal at all points are the same size, so products and quotients are found by value.

An index into a dimension is a number in mixed radix: its `Digit`s, the most significant first. A reshape of
contiguous values only groups digits anew, so that following a view needs no division.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

Dim = tuple[int, ...]


def times(dims: Iterable[Dim], points: int) -> Dim:
    """Return the product at each point."""
    result = (1,) * points
    for dim in dims:
        result = tuple(a * b for a, b in zip(result, dim, strict=True))
    return result


def divided(dim: Dim, by: Dim) -> Dim | None:
    """Return the quotient at each point, or None if it is not whole at some point."""
    if any(b == 0 or a % b for a, b in zip(dim, by, strict=True)):
        return None
    return tuple(a // b for a, b in zip(dim, by, strict=True))


def is_one(dim: Dim) -> bool:
    return all(size == 1 for size in dim)


@dataclass(frozen=True)
class Digit:
    """A C++ expression whose value is at least 0 and below `size`."""

    text: str
    size: Dim


Index = tuple[tuple[Digit, ...], ...]
"""Digits of each dimension. A dimension of size one has none."""


class Split(Exception):
    """A request to split the loop variable `name` into an upper part and a lower part of size `low`."""

    def __init__(self, name: str, low: Dim) -> None:
        super().__init__(name)
        self.name, self.low = name, low


class Radix:
    """Arithmetic on the digits of an index.

    `names` give the text of a size, and the text of a size as a divisor. `is_loop` tells loop variables from
    other texts.
    """

    def __init__(
        self, points: int, names: tuple[Callable[[Dim], str], Callable[[Dim], str]],
        product: Callable[[Iterable[Dim]], Dim], is_loop: Callable[[Digit], bool],
    ) -> None:  # fmt: skip
        self.points, self._product, self._is_loop = points, product, is_loop
        self.name_of, self._divisor_of = names

    def number(self, digits: Sequence[Digit]) -> str:
        """Return the combined value of the digits as C++."""
        if not digits:
            return "0"
        joined = self._joined(digits)
        text = joined[0].text
        for digit in joined[1:]:
            text = f"({text} * {self.name_of(digit.size)} + {digit.text})"
        return text

    def _joined(self, digits: Sequence[Digit]) -> list[Digit]:
        """Merge a quotient and its remainder into one digit again."""
        found: list[Digit] = []
        for digit in digits:
            found.append(digit)
            while len(found) > 1:
                high, low = found[-2:]
                by = self._divisor_of(low.size)
                end = f" % {by})"
                whole = low.text[1 : -len(end)]
                if low.text != f"({whole}{end}" or high.text != f"({whole} / {by})":
                    break
                found[-2:] = [Digit(whole, self._product((high.size, low.size)))]
        return found

    def linear(self, index: Index) -> str:
        """Return the offset in a contiguous tensor for an index that has all its digits."""
        return self.number([digit for digits in index for digit in digits])

    def regrouped(self, index: Index, shape: Sequence[Dim]) -> Index:
        """Return the index of the same element after a reshape. Raises Split."""
        left = [digit for digits in index for digit in digits if not is_one(digit.size)]
        found: list[tuple[Digit, ...]] = []
        for dim in reversed(shape):
            taken = self._take(left, dim)
            if taken is None:
                return self._computed(index, shape)
            found.append(taken)
        return tuple(reversed(found))

    def _take(self, left: list[Digit], dim: Dim) -> tuple[Digit, ...] | None:
        """Take digits from the end of `left` whose sizes multiply to `dim`. Returns None if that fails."""
        taken: list[Digit] = []
        wanted = dim
        while not is_one(wanted):
            if not left:
                return None
            rest = divided(wanted, left[-1].size)
            if rest is not None:
                wanted = rest
                taken.append(left.pop())
                continue
            high = divided(left[-1].size, wanted)
            if high is None:
                return None
            digit = left.pop()
            if self._is_loop(digit):
                raise Split(digit.text, wanted)
            by = self._divisor_of(wanted)
            left.append(Digit(f"({digit.text} / {by})", high))
            left.append(Digit(f"({digit.text} % {by})", wanted))
        return tuple(reversed(taken))

    def _computed(self, index: Index, shape: Sequence[Dim]) -> Index:
        """Return the index by division, for sizes without common factors."""
        place = self.linear(index)
        found: list[tuple[Digit, ...]] = []
        for position, dim in enumerate(shape):
            below = self._product(shape[position + 1 :])
            text = place if is_one(below) else f"({place} / {self._divisor_of(below)})"
            if position and not is_one(dim):
                text = f"({text} % {self._divisor_of(dim)})"
            found.append(() if is_one(dim) else (Digit(text, dim),))
        return tuple(found)
