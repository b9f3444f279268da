"""The lines of a kernel while they are written: scopes, and what is known in each."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

C_TYPES = {
    "float32": "float", "float64": "double", "int64": "int64_t", "int32": "int", "bool": "bool",
    "uint8": "uint8_t", "int8": "int8_t", "int16": "int16_t", "spread": "Spread",
    "exponentials": "Exponentials", "place": "Place", "float16": "float", "bfloat16": "float",
}  # fmt: skip
"""What a number of this dtype is in a kernel's variables."""
STORED = C_TYPES | {"float16": "at::Half", "bfloat16": "at::BFloat16"}
"""What it is in memory: numbers of 16 bits are computed with as float."""
STATES = {"spread": 3, "exponentials": 2, "place": 2}
"""What a reduction knows so far, as so many numbers of float32 in memory."""

_DECLARED = re.compile(r" *const \w+ (\w+) = ")
_NAMES = re.compile(r"[A-Za-z_]\w*")


@dataclass
class _Scope:
    lines: "list[str | list[str]]" = field(default_factory=list)
    """A list among them is a part that is still written."""
    known: dict[object, str] = field(default_factory=dict)


class Body:
    """Statements in nested scopes; what a scope or one around it has computed is not computed again."""

    def __init__(self) -> None:
        self._scopes = [_Scope()]
        self._names = 0
        self.has_branches = False
        """Whether elements are computed under conditions or in loops of their own."""

    @property
    def read(self) -> frozenset[str]:
        """All names that are left."""
        return frozenset(name for line in self.lines for name in _NAMES.findall(line))

    @property
    def lines(self) -> list[str]:
        """All of it, without the variables that nothing reads."""
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
        """Before everything else."""
        self._scopes[0].lines.insert(0, line)

    def part(self) -> list[str]:
        """Lines at this place that are still to come."""
        lines: list[str] = []
        self._scopes[-1].lines.append(lines)
        return lines

    def known(self, key: object) -> str | None:
        """The variable of what was computed here or around."""
        return next((scope.known[key] for scope in self._scopes if key in scope.known), None)

    def learn(self, key: object, name: str) -> None:
        self._scopes[-1].known[key] = name

    def fresh(self, stem: str = "v") -> str:
        """A name that is not taken."""
        self._names += 1
        return f"{stem}{self._names - 1}"

    def temp(self, text: str, dtype: str) -> str:
        """A variable for an expression."""
        known = self.known(text)
        if known or text.isidentifier():
            return known or text
        name = self.fresh()
        self.say(f"const {C_TYPES[dtype]} {name} = {text};")
        self.learn(text, name)
        return name

    def choose(self, condition: str, dtype: str, yes: Callable[[], str], no: Callable[[], str]) -> str:
        """A variable: what `yes` computes where the condition holds, else what `no` does."""
        name, self.has_branches = self.fresh(), True
        self.say(f"{C_TYPES[dtype]} {name};")
        with self.block(f"if ({condition})"):
            self.say(f"{name} = {yes()};")
        with self.block("else"):
            self.say(f"{name} = {no()};")
        return name

    def when(self, condition: str, line: Callable[[], str]) -> None:
        """A statement under a condition."""
        with self.block(f"if ({condition})"):
            self.say(line())

    def window(self, start: str, dtype: str, sizes: dict[str, str], step: Callable[[str], None]) -> str:
        """A variable that begins with `start` and that `step` updates for all values of the loops `sizes`."""
        name, self.has_branches = self.fresh(), True
        self.say(f"{C_TYPES[dtype]} {name} = {start};")
        self._nest(list(sizes.items()), lambda: step(name))
        return name

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """A scope of its own, written down behind what is said around it meanwhile."""
        outside = self._scopes[-1]
        scope = _Scope()
        self._scopes = [*self._scopes, scope]
        yield
        self._scopes = self._scopes[:-1]
        outside.lines += [f"{head} {{", *(f"    {line}" for line in _flat(scope.lines)), "}"]

    @contextmanager
    def grid_loop(self, variable: str, end: str, at_once: int) -> Iterator[None]:
        """Over the numbers below `end`, by all threads; reads of `at_once` steps are begun together."""
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
        """Over the numbers below `end`, by a row's threads; reads of `at_once` steps are begun together."""
        with self._counted(f"({end} - I(threadIdx.x) + I(blockDim.x) - 1) / I(blockDim.x)", at_once):
            self.say(f"const I {variable} = I(threadIdx.x) + step * I(blockDim.x);")
            yield

    @contextmanager
    def _counted(self, count: str, at_once: int) -> Iterator[None]:
        """So many steps, counted first: only then does the compiler read for several of them at once."""
        steps = self.fresh("steps")
        self.say(f"const I {steps} = {count};")
        self.say(f"#pragma unroll {at_once}")
        with self.block(f"for (I step = 0; step < {steps}; ++step)"):
            yield

    @contextmanager
    def outermost(self) -> Iterator[None]:
        """What is said here comes before the scopes that are open."""
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
