"""Loop variables: the order in which a shape is traversed, and the value of each variable at a step."""

from collections.abc import Callable, Iterable, Sequence

from agent.compose.body import Body
from agent.compose.dims import Digit, Dim, Index, is_one

Atom = tuple[str, Dim]
"""Name of a loop variable, and the number of values it takes."""
Group = tuple[str | None, list[Dim]]
"""Name and size of a loop variable that is read, or None and the sizes of neighbouring unread ones."""
Sizing = tuple[Callable[[Dim], str], Callable[[Iterable[Dim]], Dim]]
"""Function for the text of a size as a divisor, and function for a product of sizes that has a text."""


class Loops:
    """Loop variables of one kernel. `splits` says how they are divided, `read` which ones the text reads."""

    def __init__(
        self, body: Body, sizing: Sizing, splits: dict[str, Dim], read: frozenset[str] | None
    ) -> None:
        self.sizes: dict[str, Dim] = {}
        """Sizes of the variables, by name."""
        self._body, self._splits, self._read = body, splits, read
        self._divisor, self._product = sizing
        self._runs: dict[tuple[Digit, ...], str] = {}

    def atoms(self, stem: str, shape: Sequence[Dim]) -> tuple[list[Atom], Index]:
        """Return the variables for a shape, and the index that they form."""
        found: list[Atom] = []
        index = []
        for axis, size in enumerate(shape):
            own = [] if is_one(size) else self._divided(f"{stem}{axis}", size)
            found += own
            index.append(tuple(Digit(name, part) for name, part in own))
        self.sizes.update(found)
        return found, tuple(index)

    def is_whole(self, digit: Digit) -> bool:
        """Return True if the digit is a variable with all its values.

        A part of a concatenation takes only the first values.
        """
        return self.sizes.get(digit.text) == digit.size

    def grouped(self, atoms: list[Atom]) -> list[Group]:
        """Return the variables in order, with neighbouring unread ones put together."""
        groups: list[Group] = []
        for name, size in atoms:
            if self._read is None or name in self._read:
                groups.append((name, [size]))
            elif groups and groups[-1][0] is None:
                groups[-1][1].append(size)
            else:
                groups.append((None, [size]))
        return groups

    def decode(self, variable: str, atoms: list[Atom]) -> None:
        """Declare the variables as functions of the step's number. The last variable changes fastest."""
        self.say(variable, self.grouped(atoms))
        self.are(atoms, variable)

    def say(self, rest: str, groups: list[Group]) -> None:
        """Declare the variables of the groups as functions of a number that counts them all."""
        for place, (name, sizes) in reversed(list(enumerate(groups))):
            by = self._divisor(self._product(sizes))
            if name:
                self._body.say(f"const I {name} = {rest}{f' % {by}' if place else ''};")
            if place:
                rest = f"{rest} / {by}"

    def are(self, atoms: list[Atom], variable: str) -> None:
        """Record that these variables equal `variable` where they stand together."""
        self._runs[tuple(Digit(name, size) for name, size in atoms)] = variable

    def joined(self, digits: list[Digit]) -> list[Digit]:
        """Return the digits, with consecutive ones replaced by the variable that they are decoded from."""
        left, found = list(digits), list[Digit]()
        while left:
            run = next(
                ((own, text) for own, text in self._runs.items() if own and tuple(left[: len(own)]) == own),
                None,
            )
            if run is None:
                found.append(left.pop(0))
                continue
            own, text = run
            found.append(Digit(text, self._product(digit.size for digit in own)))
            del left[: len(own)]
        return found

    def _divided(self, name: str, size: Dim) -> list[Atom]:
        low = self._splits.get(name)
        if low is None:
            return [(name, size)]
        high = tuple(a // b for a, b in zip(size, low, strict=True))
        return [*self._divided(f"{name}a", high), *self._divided(f"{name}b", low)]
