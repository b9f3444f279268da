"""Kernel body under construction: lines in nested scopes, and the values known in each scope."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

C_TYPES = {
    "float32": "float", "float64": "double", "int64": "int64_t", "int32": "int", "bool": "bool",
    "uint8": "uint8_t", "int8": "int8_t", "int16": "int16_t", "spread": "Spread",
    "exponentials": "Exponentials", "place": "Place", "float16": "float", "bfloat16": "float",
}  # fmt: skip
"""C++ type of a kernel variable that holds a number of this dtype."""
STORED = C_TYPES | {"float16": "at::Half", "bfloat16": "at::BFloat16"}
"""C++ type of the dtype in memory. Numbers of 16 bits are computed as float."""
STATES = {"spread": 3, "exponentials": 2, "place": 2}
"""Number of float32 values in memory that hold one state of a reduction."""

_DECLARED = re.compile(r" *const \w+ (\w+) = ")
_NAMES = re.compile(r"[A-Za-z_]\w*")


@dataclass
class _Scope:
    lines: "list[str | list[str]]" = field(default_factory=list)
    """Lines of the scope. A nested list is a part that is still being written."""
    known: dict[object, str] = field(default_factory=dict)


class Body:
    """Statements in nested scopes. An expression known in an open scope is not computed again."""

    def __init__(self) -> None:
        self._scopes = [_Scope()]
        self._names = 0
        self.has_branches = False
        """True if elements are computed under conditions or in loops of their own."""

    @property
    def read(self) -> frozenset[str]:
        """Return all names that occur in the final lines."""
        return frozenset(name for line in self.lines for name in _NAMES.findall(line))

    @property
    def lines(self) -> list[str]:
        """Return all lines, without the variables that nothing reads."""
        read: set[str] = set()
        kept = []
        for line in reversed(_flat(self._scopes[0].lines)):
            declared = _DECLARED.match(line)
            if declared and declared[1] not in read:
                continue
            read |= set(_NAMES.findall(line))
            kept.append(f"    {line}")
        return kept[::-1]

    def say(self, line: str) -> None:
        self._scopes[-1].lines.append(line)

    def say_first(self, line: str) -> None:
        """Insert a line before all others."""
        self._scopes[0].lines.insert(0, line)

    def part(self) -> list[str]:
        """Return a list at this place, to be filled with lines later."""
        lines: list[str] = []
        self._scopes[-1].lines.append(lines)
        return lines

    def known(self, key: object) -> str | None:
        """Return the variable that an open scope has for `key`, or None."""
        return next((scope.known[key] for scope in self._scopes if key in scope.known), None)

    def learn(self, key: object, name: str) -> None:
        self._scopes[-1].known[key] = name

    def fresh(self, stem: str = "v") -> str:
        """Return an unused name."""
        self._names += 1
        return f"{stem}{self._names - 1}"

    def temp(self, text: str, dtype: str) -> str:
        """Return a variable that holds the value of an expression."""
        known = self.known(text)
        if known or text.isidentifier():
            return known or text
        name = self.fresh()
        self.say(f"const {C_TYPES[dtype]} {name} = {text};")
        self.learn(text, name)
        return name

    def choose(self, condition: str, dtype: str, yes: Callable[[], str], no: Callable[[], str]) -> str:
        """Return a variable that holds the value of `yes` if the condition holds, else that of `no`."""
        name, self.has_branches = self.fresh(), True
        self.say(f"{C_TYPES[dtype]} {name};")
        with self.block(f"if ({condition})"):
            self.say(f"{name} = {yes()};")
        with self.block("else"):
            self.say(f"{name} = {no()};")
        return name

    def when(self, condition: str, line: Callable[[], str]) -> None:
        """Add a statement under a condition."""
        with self.block(f"if ({condition})"):
            self.say(line())

    def window(self, start: str, dtype: str, sizes: dict[str, str], step: Callable[[str], None]) -> str:
        """Return a variable that begins as `start`. `step` updates it for all values of the loops `sizes`."""
        name, self.has_branches = self.fresh(), True
        self.say(f"{C_TYPES[dtype]} {name} = {start};")
        self._nest(list(sizes.items()), lambda: step(name))
        return name

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Open a nested scope. Lines that are added to the enclosing scope meanwhile precede it."""
        outside = self._scopes[-1]
        scope = _Scope()
        self._scopes = [*self._scopes, scope]
        yield
        self._scopes = self._scopes[:-1]
        outside.lines += [f"{head} {{", *(f"    {line}" for line in _flat(scope.lines)), "}"]

    @contextmanager
    def grid_loop(self, variable: str, end: str, at_once: int) -> Iterator[None]:
        """Loop over the numbers below `end` with all threads.

        Reads of `at_once` steps are issued together.
        """
        first, step = "I(blockIdx.x) * blockDim.x + threadIdx.x", "I(gridDim.x) * blockDim.x"
        if at_once == 1:
            with self.block(f"for (I {variable} = {first}; {variable} < {end}; {variable} += {step})"):
                yield
            return
        begin, apart = self.fresh("begin"), self.fresh("apart")
        self.say(f"const I {begin} = {first}, {apart} = {step};")
        until = f"{begin} < {end} ? ({end} - {begin} - 1) / {apart} + 1 : 0"
        with self._counted(until, at_once):
            self.say(f"const I {variable} = {begin} + step * {apart};")
            yield

    @contextmanager
    def row_loop(self, variable: str, end: str, at_once: int) -> Iterator[None]:
        """Loop over the numbers below `end` with the threads of a row.

        Reads of `at_once` steps are issued together.
        """
        with self._counted(f"({end} - I(threadIdx.x) + I(blockDim.x) - 1) / I(blockDim.x)", at_once):
            self.say(f"const I {variable} = I(threadIdx.x) + step * I(blockDim.x);")
            yield

    @contextmanager
    def _counted(self, count: str, at_once: int) -> Iterator[None]:
        """Loop over a number of steps that is computed in advance.

        Only then does the compiler issue the reads of several steps at once.
        """
        steps = self.fresh("steps")
        self.say(f"const I {steps} = {count};")
        self.say(f"#pragma unroll {at_once}")
        with self.block(f"for (I step = 0; step < {steps}; ++step)"):
            yield

    @contextmanager
    def outermost(self) -> Iterator[None]:
        """Place the lines that are added here before the open scopes."""
        inside, self._scopes = self._scopes, self._scopes[:1]
        yield
        self._scopes = inside

    def _nest(self, loops: list[tuple[str, str]], inside: Callable[[], None]) -> None:
        if not loops:
            inside()
            return
        (name, count), *rest = loops
        with self.block(f"for (int {name} = 0; {name} < {count}; ++{name})"):
            self._nest(rest, inside)


def _flat(lines: "list[str | list[str]]") -> list[str]:
    return [line for part in lines for line in ([part] if isinstance(part, str) else part)]
