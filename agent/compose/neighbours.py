"""V neighbours that one thread computes: first all reads, then the values, then all writes.

The compiler merges neighbouring accesses into one only if nothing branches between them.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from agent.compose.body import Body

_NAMES = re.compile(r"[A-Za-z_]\w*")
_LOOP = "for (int u = 0; u < V; ++u)"


class Neighbours:
    """Code for V neighbours. `named` declares the loop variables that differ between neighbours, by `u`."""

    def __init__(self, body: Body, named: list[str]) -> None:
        self._body, self._named = body, named
        self._own = {line.split()[2] for line in named}
        self._reads, self._writes = list[str](), list[str]()
        self._arrays = body.part()
        self._before = body.part()
        self._after = list[str]()
        self._known: dict[str, str] = {}

    @contextmanager
    def each(self) -> Iterator[None]:
        """Open the loop that computes one value. Reads are placed before the loop, and writes after it."""
        self._body.say("#pragma unroll")
        with self._body.block(_LOOP):
            for line in self._named:
                self._body.say(line)
            yield
        self._before += self._loop(self._reads)
        for line in (*self._loop(self._writes), *self._after):
            self._body.say(line)

    def loaded(self, place: str, c_type: str) -> str:
        """Return the text of an element. If its place is known before the loop, it is read there."""
        names = set(_NAMES.findall(place))
        computed = any(re.fullmatch(r"[vl]\d+", name) for name in names)
        if computed or not names & self._own:
            return place
        if place not in self._known:
            self._known[place] = f"l{len(self._known)}"
            self._arrays.append(f"{c_type} {self._known[place]}[V];")
            self._reads.append(f"{self._known[place]}[u] = {place};")
        return f"{self._known[place]}[u]"

    def store(self, place: str, value: str, c_type: str) -> None:
        """Write a result after all neighbours are computed."""
        self._arrays.append(f"{c_type} result[V];")
        self._body.say(f"result[u] = {value};")
        self._writes.append(f"{place} = result[u];")

    def together(self, value: str, c_type: str, line: str) -> None:
        """Add a statement on the values of all neighbours. In `line`, {} stands for their array."""
        name = f"given{len(self._after)}"
        self._arrays.append(f"{c_type} {name}[V];")
        self._body.say(f"{name}[u] = {value};")
        self._after.append(line.format(name))

    def _loop(self, lines: list[str]) -> list[str]:
        if not lines:
            return []
        read = {name for line in lines for name in _NAMES.findall(line)}
        named = [line for line in self._named if line.split()[2] in read]
        return ["#pragma unroll", f"{_LOOP} {{", *(f"    {line}" for line in [*named, *lines]), "}"]
