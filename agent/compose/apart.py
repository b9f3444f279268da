"""Traces of a reference at sizes that really differ, so that equality by chance is no rule.

A knob is one size of the reference: an integer of its text, or one dimension of one input. Each knob is
turned by a ratio of its own, and stays turned only if the reference still makes the same calls and the
composer follows them. A size that no knob changes is a constant of the file. Imports torch: used in the
child alone.
"""

import logging
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations

from agent.compose.dims import Dim
from agent.compose.tracing import Traced, runs, traced
from agent.problems.sizes import rewritten, sizes

_PRIMES = tuple(map(Fraction, (3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67)))
_OTHERS = (Fraction(2), Fraction(4), Fraction(1, 2), Fraction(8), Fraction(1, 4))
"""Ratios for a size that has to divide another size, or to be divided by one."""
_MOST_NODES = 8_000
"""Maximum number of graph nodes over all traces. Tracing a reference of thousands of calls takes a minute."""
_LEAST_TRACES = 6
"""Minimum number of traces, whatever their length."""
_MOST_PAIRS = 12
"""Maximum number of pairs of equal sizes that are turned together."""

Axis = tuple[int, int]
"""Input, by its position among the tensors, and dimension."""
Knob = str | Axis
Turned = dict[Knob, Fraction]


class Knobs:
    """Search for the traces of one reference.

    `composes`: return True if a file can be composed from these traces.
    """

    def __init__(self, source: str, composes: Callable[[list[Traced]], bool]) -> None:
        self._source, self._composes = source, composes
        self._values = {size.name: size.value for size in sizes(source)}
        self._base = traced(source)
        self._checks_each = False
        self._left = max(_MOST_NODES // max(len(self._base.calls), 1), _LEAST_TRACES)
        self._tried: dict[tuple[tuple[Knob, Fraction], ...], Traced | None] = {}

    def traces(self) -> list[Traced]:
        """Return the reference's own trace, and up to two in which as many sizes as possible differ."""
        found = self._traces()
        if len(found) > 1 and not self._composes(found):
            self._checks_each = True  # some number is not composed where it varies
            found = self._traces()
        return found

    def _traces(self) -> list[Traced]:
        turned = self._turned(list(self._values), {})
        turned = self._apart(turned, turned)
        axes = self._axes(turned)
        turned = self._apart(dict.fromkeys(axes, Fraction(1)), turned)
        turned = self._turned(
            [axis for axis in axes if axis not in turned and self._is_fixed(axis, turned)], turned
        )
        found = [self._base, *filter(None, [self._trace(turned) if turned else None])]
        again = self._trace(self._exchanged(turned)) if len(turned) > 1 else None
        return [*found, again] if again and self._composes([*found, again]) else found

    def _axes(self, turned: Turned) -> list[Knob]:
        """Return the dimensions of inputs that have not changed, or changed as another dimension did."""
        seen: set[Dim] = set()
        found: list[Knob] = []
        for number, shape in enumerate(self._base.shapes):
            for axis in range(len(shape)):
                size = self._size((number, axis), turned)
                if len(set(size)) == 1 or size in seen:
                    found.append((number, axis))
                seen.add(size)
        return found

    def _size(self, axis: Axis, turned: Turned) -> Dim:
        shapes = self._base.shapes, (self._trace(turned) or self._base).shapes
        return shapes[0][axis[0]][axis[1]], shapes[1][axis[0]][axis[1]]

    def _is_fixed(self, axis: Knob, turned: Turned) -> bool:
        return not isinstance(axis, str) and len(set(self._size(axis, turned))) == 1

    def _turned(self, knobs: list[Knob], turned: Turned) -> Turned:
        """Turn the knobs, those of equal value by the same ratio where that is possible."""
        groups = list(self._by_value(knobs).values())
        primes = self._primes(turned)
        together = turned | {
            knob: ratio for group, ratio in zip(groups, primes, strict=False) for knob in group
        }
        if len(groups) <= len(primes) and self._holds(together):
            return together
        for group in groups:
            more = self._with(turned, group)
            if more is None:
                for knob in group if len(group) > 1 else ():
                    turned = self._with(turned, [knob]) or turned
            turned = more or turned
        return turned

    def _apart(self, knobs: Turned, turned: Turned) -> Turned:
        """Turn knobs of equal value once more, alone or in pairs, so that they differ."""
        for group in self._by_value(list(knobs)).values():
            slow = list(group)
            for knob in group if len(group) > 1 or not isinstance(group[0], str) else ():
                more = self._once_more(turned, [knob])
                slow = [other for other in slow if other != knob] if more else slow
                turned = more or turned
            for pair in list(combinations(slow, 2))[:_MOST_PAIRS] if len(slow) > 2 else ():
                if all(knob in slow for knob in pair):
                    more = self._once_more(turned, pair)
                    slow = [other for other in slow if other not in pair] if more else slow
                    turned = more or turned
        return turned

    def _once_more(self, turned: Turned, knobs: Sequence[Knob]) -> Turned | None:
        if not (primes := self._primes(turned)):
            return None
        more = turned | {knob: turned.get(knob, Fraction(1)) * primes[0] for knob in knobs}
        return more if self._holds(more) else None

    def _with(self, turned: Turned, knobs: Sequence[Knob]) -> Turned | None:
        others = [ratio for ratio in _OTHERS if ratio not in turned.values()]
        for ratio in [*self._primes(turned)[:1], *others]:
            if all((self._value(knob) * ratio).denominator == 1 for knob in knobs):
                more = {**turned, **dict.fromkeys(knobs, ratio)}
                if self._holds(more):
                    return more
        return None

    @staticmethod
    def _primes(turned: Turned) -> list[Fraction]:
        """Return the primes that divide no ratio yet."""
        return [prime for prime in _PRIMES if all(ratio.numerator % prime for ratio in turned.values())]

    def _by_value(self, knobs: list[Knob]) -> dict[int, list[Knob]]:
        found: dict[int, list[Knob]] = {}
        for knob in knobs:
            found.setdefault(self._value(knob), []).append(knob)
        return found

    def _value(self, knob: Knob) -> int:
        if isinstance(knob, str):
            return self._values[knob]
        return self._base.shapes[knob[0]][knob[1]]

    @staticmethod
    def _exchanged(turned: Turned) -> Turned:
        """Return the same knobs with each other's primes."""
        primes = list(dict.fromkeys(ratio for ratio in turned.values() if ratio in _PRIMES))
        other = dict(zip(primes, reversed(primes), strict=True))
        return {knob: other.get(ratio, ratio) for knob, ratio in turned.items()}

    def _holds(self, turned: Turned) -> bool:
        trace = self._trace(turned)
        return trace is not None and (not self._checks_each or self._composes([self._base, trace]))

    def _trace(self, turned: Turned) -> Traced | None:
        """Return the trace with these knobs turned, or None if the reference makes other calls there."""
        key = tuple(sorted(turned.items(), key=repr))
        if key not in self._tried:
            if self._left <= 0:
                return None
            self._tried[key] = self._traced(turned)
        return self._tried[key]

    def _traced(self, turned: Turned) -> Traced | None:
        values = {
            knob: int(self._values[knob] * ratio) for knob, ratio in turned.items() if isinstance(knob, str)
        }
        axes = tuple((*knob, ratio) for knob, ratio in turned.items() if not isinstance(knob, str))
        source = rewritten(self._source, values)
        logging.disable(logging.CRITICAL)  # torch logs every operator that rejects its shapes
        try:
            if not runs(source, axes):  # takes a fraction of a trace
                return None
            self._left -= 1
            trace = traced(source, axes)
        except Exception:  # noqa: BLE001 - whatever the reference's own code raises at such a size
            return None
        finally:
            logging.disable(logging.NOTSET)
        return trace if trace.calls == self._base.calls else None
