"""Sizes as Python: the expression that gives a number at every traced point."""

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
        if is_one(size) or all(value == 0 for value in size):
            return str(size[0])
        found = self._found(size)
        if found is None:
            raise Declined(f"the size {size[0]} follows from no shape and no setting that was found")
        return found if found in self._known.values() or " " not in found else f"({found})"

    def _found(self, size: Dim) -> str | None:
        if size in self._known:
            return self._known[size]
        known = {dim: text for dim, text in self._known.items() if not is_one(dim) and 0 not in dim}
        known |= {dim: text for dim, text in self._integers.items() if min(dim) > 1 and dim not in known}
        if size in self._integers and len(set(size)) > 1:
            return self._integers[size]
        for count in (2, 3, 4):
            for group in combinations_with_replacement(known, count):
                if times(group, self._points) == size:
                    return " * ".join(known[dim] for dim in group)
        for dim, text in known.items():
            by = divided(dim, size)
            if by is not None and by in known:
                return f"{text} // {known[by]}"
        for one, other in combinations_with_replacement(known, 2):
            for by in set(known) - {one, other}:
                if divided(times((one, other), self._points), by) == size:
                    return f"{known[one]} * {known[other]} // {known[by]}"
        for dim, text in known.items():
            by = divided(dim, size)
            if by is not None and len(set(by)) == 1:
                return f"{text} // {by[0]}"
            over = divided(size, dim)
            if over is not None and len(set(over)) == 1:
                return f"{text} * {over[0]}"
        if size in self._integers:
            return self._integers[size]
        if len(set(size)) == 1:
            return str(size[0])
        return self._sum(size, known) or self._share(size, known)

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
