"""Parameters of a kernel: tensors, sizes, and sizes that indices are divided by."""

import re
from collections.abc import Iterable

from agent.compose.body import Body
from agent.compose.dims import Dim, is_one, times
from agent.compose.values import Buffer


class Parameters:
    """Parameters of one kernel, added when its body asks for them. `known` is an earlier pass over it."""

    def __init__(self, points: int, known: "Parameters | None" = None) -> None:
        self.body = Body()
        self.pointers: dict[Buffer, str] = {}
        self.sizes: dict[Dim, str] = {}
        self.divisors: dict[tuple[Dim, bool], str] = {}
        """Parameters for sizes that indices are divided by. The flag is True for a size in steps of `V`."""
        self.last: list[Dim] = list(known.last) if known else []
        """Sizes that have to be multiples of `V` if the kernel takes `V` neighbours at once."""
        self._points = points
        self._multiples: dict[Dim, str] = {}
        self._parts: dict[Dim, list[Dim]] = dict(known._parts) if known else {}

    def size(self, dim: Dim) -> str:
        """Return the parameter for a size."""
        if is_one(dim):
            return "1"
        if dim in self._multiples:
            return self._multiples[dim]
        if dim not in self.sizes and dim in self._parts:
            return f"({' * '.join(self._factors(self._parts[dim]))})"
        return self.sizes.setdefault(dim, f"n{len(self.sizes)}")

    def divisor(self, dim: Dim, wide: bool = False) -> str:
        """Return the parameter for a size that an index is divided by."""
        if is_one(dim):
            return "1"
        return self.divisors.setdefault((dim, wide), f"d{len(self.divisors)}")

    def _factors(self, parts: list[Dim]) -> list[str]:
        for whole, name in self._multiples.items():
            known = self._parts.get(whole, [whole])
            if parts[-len(known) :] == known:
                return [*map(self.size, parts[: -len(known)]), name]
        return [self.size(part) for part in parts]

    def product(self, dims: Iterable[Dim]) -> Dim:
        """Return the product of these sizes, and record its factors."""
        parts = [dim for dim in dims if not is_one(dim)]
        whole = times(parts, self._points)
        if len(parts) > 1:
            self._parts.setdefault(whole, parts)
        return whole

    def pointer(self, buffer: Buffer) -> str:
        """Return the parameter for a tensor. The first tensor is the one that the kernel writes."""
        if buffer not in self.pointers:
            named = re.search(r'"(.+)"', buffer.name)  # a module's parameter, named by its path
            stem = re.sub(r"\W+", "_", named[1] if named else buffer.name)
            taken = self.pointers.values()
            name = f"in_{stem}" if taken else "out"
            self.pointers[buffer] = f"{name}_{len(self.pointers)}" if name in taken else name
        return self.pointers[buffer]

    def by_vectors(self, size: Dim) -> None:
        """Require this size to be a multiple of V in a wide kernel."""
        if size not in self.last:
            self.last.append(size)

    def _multiple(self, size: Dim) -> str:
        """Return a variable for a size, from which the compiler sees that it is a multiple of V."""
        self.by_vectors(size)
        if size not in self._multiples:
            name, known = f"m{len(self._multiples)}", self._multiples
            self._multiples = {}  # the line comes before the other variables, so it cannot name them
            self.body.say_first(f"const I {name} = {self.size(size)} / V * V;")
            self._multiples = known | {size: name}
        return self._multiples[size]
