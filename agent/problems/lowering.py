"""Minimise sizes under a condition that depends on the candidate's code: which kernels it launches.

A pure search, like `planning`. It starts at the real sizes, where the condition holds. It lowers one size
after another to the least value that keeps the condition, until a run is cheap. The batch goes first, then
other inputs, then constructor arguments, and last sizes whose real value is a literal in the candidate. Sizes
of equal value are first lowered together, then one by one. The same reference and the same answers give the
same sizes.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from agent.problems import literals
from agent.problems.form import same_work
from agent.problems.levels import SMALL
from agent.problems.planning import DEAREST, FULL_PROTOCOL, cost
from agent.problems.shrinking import Shrunken, at_sizes
from agent.problems.sizes import constructor_sizes, rewritten, sizes
from agent.records import Problem, TensorSpec, Trace

CHEAP, AFFORDABLE = FULL_PROTOCOL, DEAREST
LEFT_ALONE = 4
"""Largest size that is never lowered: windows and strides are this small."""

Attempt = Callable[[str], Trace | None]
"""Function that traces a changed source; None if the reference does not run on it."""
Holds = Callable[[Trace], bool]
"""Condition, given the trace at the sizes the candidate would get."""


def lowered(problem: Problem, candidate: str, attempt: Attempt, holds: Holds) -> Shrunken | None:
    """Return the problem at smaller sizes at which the condition holds; None if no affordable ones exist."""
    search = _Search(problem, candidate, attempt, holds)
    for move in sorted(search.moves(), key=search.turn):
        now = cost(search.trace)
        if not now.within(CHEAP) and not (search.may_be_held(move) and now.within(AFFORDABLE)):
            search.lower(move)
    if search.trace == problem.trace or not cost(search.trace).within(AFFORDABLE):
        return None
    return at_sizes(problem, search.changed(), search.trace)


class _Move(NamedTuple):
    """Sizes of equal value that are lowered together."""

    names: tuple[str, ...]
    value: int
    alone: bool = False
    """True if other sizes with the same real value are not lowered."""
    is_batch: bool = False


class _Search:
    """The current sizes and the reference's trace at them."""

    def __init__(self, problem: Problem, candidate: str, attempt: Attempt, holds: Holds) -> None:
        self._problem, self._attempt, self._holds = problem, attempt, holds
        self._literals = {value for value, _ in literals.integers(candidate)}
        self._real = {s.name: s.value for s in sizes(problem.source) if s.span is not None}
        self._given = constructor_sizes(problem.source)
        self._values = dict(self._real)
        self.trace = problem.trace

    def moves(self) -> Iterator[_Move]:
        for value in {value for value in self._real.values() if value > LEFT_ALONE}:
            names = tuple(name for name, real in self._real.items() if real == value)
            batch = tuple(name for name in names if self._is_batch(name))
            others = tuple(name for name in names if name not in batch)
            yield from (
                _Move(together, value, is_batch=together is batch) for together in (batch, others) if together
            )
            if len(others) > 1:
                yield from (_Move((name,), value, alone=True) for name in others)

    def turn(self, move: _Move) -> tuple[bool, bool, bool, bool, int, tuple[str, ...]]:
        """Return the sort key that decides the order of moves."""
        held = move.value > SMALL and move.value in self._literals
        return (
            not move.is_batch,
            move.alone,
            held,
            not self._given.isdisjoint(move.names),
            -move.value,
            move.names,
        )

    def may_be_held(self, move: _Move) -> bool:
        """Return True if the candidate's code may hard-code this size without checking it."""
        return not move.is_batch and (move.value in self._literals or move.value <= SMALL)

    def _is_batch(self, name: str) -> bool:
        """Return True if the size is the leading dimension of every input and of no parameter or buffer."""
        real = self._problem.trace
        half = max(2, self._real[name] // 2)
        seen = self._attempt(rewritten(self._problem.source, self._real | {name: half}))
        if seen is None or seen.state != real.state:
            return False
        pairs = [
            (before.shape, after.shape)
            for before, after in zip(real.inputs, seen.inputs, strict=False)
            if isinstance(before, TensorSpec) and isinstance(after, TensorSpec)
        ]
        return all(
            after == (before[0] * half // self._real[name], *before[1:]) for before, after in pairs if before
        )

    def lower(self, move: _Move) -> None:
        """Take the least value that does the same work, keeps the condition and costs less, if any."""
        for value in _ladder(move.value):
            if value >= max(self._values[name] for name in move.names):
                return
            values = self._values | dict.fromkeys(move.names, value)
            trace = self._attempt(rewritten(self._problem.source, values))
            if trace is not None and self._is_cheaper(trace) and self._holds(trace):
                self._values, self.trace = values, trace
                return

    def _is_cheaper(self, trace: Trace) -> bool:
        """Return True if a cost falls by at least a tenth; a size that hardly matters is better kept."""
        now, then = cost(trace), cost(self.trace)
        less = 10 * now.elements <= 9 * then.elements or 10 * now.macs <= 9 * then.macs
        return less and now.below(then) and same_work(self._problem.trace, trace)

    def changed(self) -> Mapping[str, int]:
        return self._values


def _ladder(value: int) -> list[int]:
    """Return values below `value` to try, least first: small ones, halves, and equal remainders."""
    halves = [value >> n for n in range(1, value.bit_length()) if value % (1 << n) == 0]
    alike = [value % 32 + (32 << n) for n in range(value.bit_length())]
    return sorted({v for v in (2, 3, 4, 8, 16, 32, *halves, *alike) if 2 <= v < value})
