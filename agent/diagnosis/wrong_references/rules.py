"""Variants of the reference, and the registry of rules that make them from an operator call."""

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torch

from agent.diagnosis.graph import Arguments, Rewrite
from agent.diagnosis.tape import Call, Tape
from agent.diagnosis.wrong_references.composing import After, Before

_SUFFIXED = re.compile(r"(?<![\w.])(\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)[fFLlUu]*(?!\w)")


UNROLLED = 8
"""Maximum number of like calls outside a loop. More of them form a loop, whose steps share a fault."""
NUMBER = re.compile(r" \(number \d+ of its kind\)")
_ANY_NUMBER = re.compile(r"(?<![\w.])-?\d+\.?\d*(?:e[-+]?\d+)?(?![\w.]*\w)")
USUAL_BLOCKS = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Usual sizes of vectors, tiles, warps and blocks, which a source need not spell out."""


class Facts(NamedTuple):
    """Sizes and constants that the candidate's source states."""

    whole: tuple[int, ...]
    """Integer literals of the candidate's source, ascending."""
    real: tuple[float, ...]
    """Every literal as a number, in the order of the source."""
    warps: bool = False
    """True if threads of a warp exchange values."""

    @classmethod
    def of(cls, source: str) -> "Facts":
        words = [match[1] for match in _SUFFIXED.finditer(source)]
        whole = {int(word) for word in words if word.isdigit() and len(word) < 10}
        real = list(dict.fromkeys(float(word) for word in words if len(word) < 20))
        return cls(tuple(sorted(whole)), tuple(real), "__shfl" in source or "__reduce" in source)

    def blocks(self) -> list[int]:
        """Return sizes of blocks, warps and tiles: the source's, then usual ones, each descending."""
        stated = [value for value in self.whole if 2 <= value <= 1024 and value & (value - 1) == 0]
        products = {a * b for a in stated for b in stated if a * b <= 1024}
        others = {*USUAL_BLOCKS, *products} - set(stated)
        return [*sorted(stated, reverse=True), *sorted(others, reverse=True)]


class Variant(NamedTuple):
    """Reference with one fault; `words` completes "the output equals the reference ..."."""

    kind: str
    words: str
    rewrites: dict[int, Rewrite]
    rank: int = 0
    """Priority among variants with the same result: the lowest rank is reported."""
    tokens: str = ""
    """Regular expression for the candidate's line with this fault."""
    replaced: dict[int, torch.Tensor] = {}
    """Tensors that replace inputs and parameters, by `id` of the original."""


def _counts(tape: Tape) -> Counter[str]:
    """Return the number of calls with each name."""
    return Counter(call.name for call in tape.calls)


def _places(tape: Tape) -> list[int]:
    """Return for each call the number of earlier calls with its name."""
    seen: Counter[str] = Counter()
    places = []
    for call in tape.calls:
        places.append(seen[call.name])
        seen[call.name] += 1
    return places


def _loops(tape: Tape) -> list[list[int]]:
    """Return the numbers of the calls in loops, grouped by instruction."""
    rounds: dict[Any, list[int]] = {}
    for call in tape.calls:
        if call.place is not None:
            rounds.setdefault((call.place, call.func), []).append(call.number)
    return [calls for calls in rounds.values() if len(calls) > UNROLLED]


class Site(NamedTuple):
    """Operator call for which variants are made."""

    call: Call
    tape: Tape
    facts: Facts

    @property
    def given(self) -> Arguments:
        return self.call.given

    @property
    def label(self) -> str:
        """Return the operator in words, with its number if several calls have its name."""
        name = self.call.name.removeprefix("native_").strip("_")
        place, same = self.tape.once(_places)[self.call.number], self.tape.once(_counts)[self.call.name]
        return name if same == 1 else f"{name} (number {place + 1} of its kind)"

    def variant(self, kind: str, words: str, rewrite: Rewrite, rank: int = 0, tokens: str = "") -> Variant:
        return Variant(kind, words, {self.call.number: rewrite}, rank, tokens)

    def changed(self, /, **changes: Any) -> Rewrite:
        """Return the operator with other arguments; a callable receives the argument that it replaces."""
        return Before(self.call.func, changes)

    def around(self, change: Callable[[Any], Any]) -> Rewrite:
        """Return the operator with its result, or the first of several results, changed."""
        return After(self.call.func, change)

    def first(self, compute: Callable[[Arguments], Any]) -> Rewrite:
        """Return a rewrite with `compute` as first result; further results stay as recorded."""
        recorded = self.call.result

        def run(given: Arguments) -> Any:
            return (compute(given), *recorded[1:]) if isinstance(recorded, tuple) else compute(given)

        return run


Rule = Callable[[Site], Iterable[Variant]]
EVERY = "*"
_RULES: dict[tuple[str, bool], list[Rule]] = {}


def rule(*names: str, late: bool = False) -> Callable[[Rule], Rule]:
    """Register a rule for operators by name, or for every operator without names.

    Rules with `late` make many variants, which are tried only if no other variant explains the output.
    """

    def register(made: Rule) -> Rule:
        for name in names or (EVERY,):
            _RULES.setdefault((name, late), []).append(made)
        return made

    return register


UNFIT = (RuntimeError, LookupError, ValueError, TypeError, AttributeError, AssertionError)
"""Errors that a rule or a wrong reference raises on arguments that it was not made for."""


def _fitting(make: Rule, site: Site) -> Iterator[Variant]:
    """Yield the rule's variants of the call; stop if the arguments do not fit the rule."""
    with contextlib.suppress(*UNFIT):
        yield from make(site)


_TAKEN = " taken "


def _everywhere(alike: dict[tuple[str, str, str], list[Variant]]) -> Iterator[Variant]:
    """Yield variants in which every reduction loses the same elements, whatever its operation."""
    lost: dict[tuple[str, str], list[list[Variant]]] = {}
    for (_, kind, said), variants in alike.items():
        if _TAKEN in said and len(variants) <= UNROLLED:
            lost.setdefault((kind, said.partition(_TAKEN)[2]), []).append(variants)
    for (kind, which), several in lost.items():
        if len(several) > 1:
            # Take one form of each operator, since its other forms change the same calls.
            rewrites: dict[int, Rewrite] = {}
            for variants in several:
                for one in variants:
                    if not rewrites.keys() & one.rewrites.keys():
                        rewrites |= one.rewrites
            yield Variant(kind, f"with every reduction taken {which}", rewrites, several[0][0].rank + 2)


def _for_any_number(alike: dict[tuple[str, str, str], list[Variant]]) -> Iterator[Variant]:
    """Yield variants with one fault in several calls, each call with its own number."""
    found: dict[tuple[str, str, str], list[Variant]] = {}
    for (name, kind, said), variants in alike.items():
        if (
            name in ("add", "sub", "mul", "div")
            and len(variants) == 1
            and len(variants[0].rewrites) == 1
            and not variants[0].replaced
        ):
            found.setdefault((name, kind, _ANY_NUMBER.sub("its number", said)), []).append(variants[0])
    for (name, _, said), variants in found.items():
        rewrites = {number: rewrite for one in variants for number, rewrite in one.rewrites.items()}
        if 1 < len(variants) == len(rewrites) <= UNROLLED and "its number" in said:
            words = f"{said}, in all {len(rewrites)} of the kind ({name})"
            yield variants[0]._replace(words=words, rewrites=rewrites, rank=variants[0].rank + 1)


def list_variants(tape: Tape, facts: Facts, late: bool = False) -> Iterator[Variant]:
    """Yield every variant of every call, and each shared variant applied to all its calls at once."""
    alike: dict[tuple[str, str, str], list[Variant]] = {}
    for call in tape.calls:
        site = Site(call, tape, facts)
        for make in (*_RULES.get((call.name, late), ()), *_RULES.get((EVERY, late), ())):
            for variant in _fitting(make, site):
                said = NUMBER.sub("", variant.words)
                alike.setdefault((call.name, variant.kind, said), []).append(variant)
    yield from _everywhere(alike) if late else _for_any_number(alike)
    loops = tape.once(_loops)
    looped = {number for calls in loops for number in calls}
    within = {number for calls in loops for number in calls[1:-1]}
    for (name, _, said), variants in alike.items():
        together = len(variants) > 1 and all(len(v.rewrites) == 1 and not v.replaced for v in variants)
        many = len(variants) > UNROLLED and (together or all(v.rewrites for v in variants))
        if within and all(variant.rewrites and variant.rewrites.keys() <= within for variant in variants):
            # No candidate has a fault in a single inner step of a loop.
            continue
        # Only the first and the last step of a loop may be wrong alone.
        for variant in (variants[0], variants[-1]) if many else variants:
            is_step = many and bool(not loops or variant.rewrites.keys() & looped)
            yield variant._replace(rank=variant.rank + 4 * is_step)
        if together and not many if late else together:
            rewrites = {number: rewrite for one in variants for number, rewrite in one.rewrites.items()}
            words = f"{said}, in all {len(rewrites)} of the kind ({name})"
            rank = variants[0].rank + (not many)
            yield variants[0]._replace(words=words, rewrites=rewrites, rank=rank)
