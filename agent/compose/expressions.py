"""Sizes as Python: the expression that gives a number at every traced point.

A number that is the same at all points is a literal. A product or a quotient of sizes may equal it by chance.
"""

from fractions import Fraction
from itertools import combinations_with_replacement

from agent.compose.declined import Declined
from agent.compose.dims import Dim, divided, is_one, times

MOST = 16
"""Maximum number of known sizes whose products of three and four are tried."""


class Sizes:
    """Sizes as Python, from the shapes of forward's variables and the integers of the modules."""

    def __init__(self, points: int, integers: dict[Dim, str]) -> None:
        self._points, self._integers = points, integers
        self._known: dict[Dim, str] = {}

    def add(self, name: str, shape: tuple[Dim, ...]) -> None:
        """Register a tensor whose shape later statements can read."""
        for axis, size in enumerate(shape):
            text = f"{name}.shape[{axis}]"
            if len(text) < len(self._known.get(size, text + " ")):
                self._known[size] = text

    def define(self, size: Dim, text: str) -> None:
        """Register the expression that computes a size."""
        if size not in self._known and not is_one(size):
            self._known[size] = f"({text})"

    def text(self, size: Dim) -> str:
        """Return the expression for a size. Raises Declined if none is known."""
        if len(set(size)) == 1:
            return str(size[0])
        found = self.found(size)
        if found is None:
            raise Declined(f"the size {size[0]} follows from no shape and no setting that was found")
        return found if found in self._known.values() or " " not in found else f"({found})"

    def known(self) -> dict[Dim, str]:
        """Return the sizes that differ between the points and are a shape's or a module's."""
        found = {dim: text for dim, text in self._known.items() if len(set(dim)) > 1 and 0 not in dim}
        return found | {
            dim: text for dim, text in self._integers.items() if len(set(dim)) > 1 and dim not in found
        }

    def found(self, size: Dim) -> str | None:
        """Return the expression for a size, the simplest first, or None if none is known."""
        if len(set(size)) == 1:
            return str(size[0])
        if size in self._known:
            return self._known[size]
        known = self.known()
        if size in known:
            return known[size]
        return self._multiple(size, known) or self._product(size, known) or self._sum(size, known) or (
            self._share(size, known) or self._rounded(size, known)
        )  # fmt: skip

    @staticmethod
    def _multiple(size: Dim, known: dict[Dim, str]) -> str | None:
        """Return another size times a literal, or divided by one."""
        for dim, text in known.items():
            by = divided(dim, size)
            if by is not None and len(set(by)) == 1:
                return f"{text} // {by[0]}"
            over = divided(size, dim)
            if over is not None and len(set(over)) == 1:
                return f"{text} * {over[0]}"
        return None

    def _product(self, size: Dim, known: dict[Dim, str]) -> str | None:
        """Return a product of sizes, or a quotient of one or two sizes and another."""
        for count in (2, 3, 4):
            for group in combinations_with_replacement(list(known)[: None if count == 2 else MOST], count):
                whole = times(group, self._points)
                ratios = {Fraction(a, b) for a, b in zip(size, whole, strict=True)}
                if len(ratios) == 1:
                    [ratio] = ratios
                    more = [str(ratio.numerator)] if ratio.numerator > 1 else []
                    over = f" // {ratio.denominator}" if ratio.denominator > 1 else ""
                    return " * ".join([*(known[dim] for dim in group), *more]) + over
        for count in (1, 2):
            for group in combinations_with_replacement(known, count):
                whole = times(group, self._points)
                for by in known:
                    if by in group:
                        continue
                    ratios = {Fraction(a, b * c) for a, b, c in zip(whole, by, size, strict=True)}
                    if len(ratios) == 1:
                        [ratio] = ratios
                        factors = [known[dim] for dim in group] + [str(ratio.denominator)]
                        over = known[by] if ratio.numerator == 1 else f"({known[by]} * {ratio.numerator})"
                        return f"{' * '.join(factors[: count + (ratio.denominator > 1)])} // {over}"
        return None

    @staticmethod
    def _rounded(size: Dim, known: dict[Dim, str]) -> str | None:
        """Return another size divided by a literal and rounded down or up."""
        for dim, text in known.items():
            if 0 in size:
                return None
            for by in sorted({round(dim[0] / value) for value in (size[0] - 0.5, size[0], size[0] + 0.5)}):
                if by > 1 and all(a // by == b for a, b in zip(dim, size, strict=True)):
                    return f"{text} // {by}"
                if by > 1 and all(-(-a // by) == b for a, b in zip(dim, size, strict=True)):
                    return f"-(-{text} // {by})"
        return None

    def _share(self, size: Dim, known: dict[Dim, str]) -> str | None:
        """Return a product of three or four sizes divided by another size.

        An example is the number of elements in a group of channels.
        """
        for count in (3, 4):
            for group in combinations_with_replacement(list(known)[:MOST], count):
                whole = times(group, self._points)
                for by in known:
                    if by not in group and divided(whole, by) == size:
                        return f"{' * '.join(known[dim] for dim in group)} // {known[by]}"
        return None

    @staticmethod
    def _sum(size: Dim, known: dict[Dim, str]) -> str | None:
        for dim, text in known.items():
            apart = {a - b for a, b in zip(size, dim, strict=True)}
            if len(apart) == 1:
                return f"{text} {'+' if min(apart) > 0 else '-'} {abs(min(apart))}"
        for one, other in combinations_with_replacement(known, 2):
            if tuple(a + b for a, b in zip(one, other, strict=True)) == size:
                return f"{known[one]} + {known[other]}"
        return None
