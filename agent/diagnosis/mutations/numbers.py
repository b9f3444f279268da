"""Mutations of numbers: scales made from sizes, numbers of the reference exchanged, and step counts."""

import math
from collections.abc import Iterator
from itertools import combinations

from agent.diagnosis.graph import Rewrite
from agent.diagnosis.mutations.groups import Groups, variant
from agent.diagnosis.tape import Call
from agent.diagnosis.wrong_references.composing import Before
from agent.diagnosis.wrong_references.rules import Facts, Variant

NUMBERS = 6
"""Maximum number of different numbers from which pairs are exchanged."""
STEPS = 64
"""Upper limit (exclusive) of the power to which a decay is raised."""
_INNER = {"mm": "self", "bmm": "self", "addmm": "mat1"}


def mutate(groups: Groups, facts: Facts) -> Iterator[Variant]:
    yield from _scaled(groups)
    places = _places(groups)
    yield from _exchanged(places)
    yield from _counted(places)


def _scaled(groups: Groups) -> Iterator[Variant]:
    """Yield variants with a matrix product divided by the length of the inner dim or its square root."""
    for group in groups.computing():
        if group.name not in _INNER:
            continue
        size = group.first.given[_INNER[group.name]].shape[-1]
        for divisor, said in ((math.sqrt(size), f"the root of {size}"), (float(size), str(size))):
            if divisor > 1:
                words = f"with the result of {group.label} divided by {said}: a scale (divisor) that the "
                divided = lambda t, d=divisor: t / d  # noqa: E731
                yield variant("wrong-divisor", f"{words}reference does not have", group.result(divided), 5)


def _places(groups: Groups) -> dict[float, list[tuple[Call, str]]]:
    """Return for each float argument the calls and argument names where it stands."""
    found: dict[float, list[tuple[Call, str]]] = {}
    for call in groups.tape.calls:
        for name, value in call.given.items():
            if (
                type(value) is float
                and math.isfinite(value)
                and name in ("other", "alpha", "value", "weight")
            ):
                found.setdefault(value, []).append((call, name))
    return found


def _exchanged(places: dict[float, list[tuple[Call, str]]]) -> Iterator[Variant]:
    """Yield variants that exchange two numbers, together with their complements to one."""
    own = [number for number in places if number not in (0, 1)][: 2 * NUMBERS]
    # A complement is exchanged together with its number.
    own = [n for k, n in enumerate(own) if not any(abs(1 - n - m) < 1e-12 for m in own[:k])][:NUMBERS]
    for a, b in combinations(own, 2):
        rewrites: dict[int, Rewrite] = {}
        complements = False
        for one, other in ((a, b), (b, a)):
            for number, new in ((one, other), (1 - one, 1 - other)):
                same = next((n for n in places if abs(n - number) < 1e-12), None)
                complements = complements or same is not None and number != one
                for call, name in places.get(same, []) if same is not None else []:
                    rewrites[call.number] = Before(call.func, {name: new})
        kind = "wrong-decay" if complements else "wrong-coefficient"
        words = f"with {a:g} and {b:g} exchanged (swapped), each in the other's place"
        yield variant(kind, words + (", and their complements" if complements else ""), rewrites, 6)


def _counted(places: dict[float, list[tuple[Call, str]]]) -> Iterator[Variant]:
    """Yield variants whose bias correction 1 - decay^step has one step more or less."""
    found: dict[int, list[tuple[Call, str, float]]] = {}
    decays = {n for number in places for n in (number, 1 - number) if 0.5 <= n < 1}
    for number, where in places.items():
        for decay in decays if 0 < number < 1 else ():
            step = math.log(1 - number) / math.log(decay)
            if 1.5 < step < STEPS and abs(step - round(step)) < 1e-6:
                found.setdefault(round(step), []).extend((call, name, decay) for call, name in where)
    for step, corrections in found.items():
        for other in (step + 1, step - 1):
            rewrites: dict[int, Rewrite] = {
                call.number: Before(call.func, {name: 1 - decay**other}) for call, name, decay in corrections
            }
            words = (
                f"with the step {other} for {step} in the corrections of decays (1 - decay^step): off by one"
            )
            yield variant("index-off-by-one", words, rewrites, 5)
