"""Generic mutations of the reference: every value, operator and number changed.

The rules of `agent.diagnosis.wrong_references` know the common faults of each operator. The mutations here
apply to any operator. They negate or shift a value, read it along another dimension, or put another value in
its place. They exchange an operator for another of the same form, move it along the chain, or change a number
among its arguments. Steps of a loop run the same instruction of the reference and are changed together.
"""

import contextlib
from collections.abc import Iterator

from agent.diagnosis.mutations import (
    bounds,
    carried,
    counts,
    exchanges,
    functions,
    moves,
    numbers,
    others,
    parameters,
    reductions,
    tiles,
    values,
)
from agent.diagnosis.mutations.groups import Groups
from agent.diagnosis.wrong_references import Facts, Variant
from agent.diagnosis.wrong_references.rules import NUMBER, UNFIT

RANK = 5
"""Minimum rank of a mutation, above that of the rules: a named fault is reported by its name."""
TOGETHER = 8
"""Maximum number of like variants that are combined into one."""


def mutate(groups: Groups, facts: Facts) -> Iterator[Variant]:
    """Yield all mutations, likelier ones first."""
    made: list[Variant] = []
    for kind in (
        functions, moves, others, parameters, reductions, values, bounds, carried, counts, exchanges, tiles,
        numbers,
    ):  # fmt: skip
        # A value with an unfit type or shape ends only its own kind of mutations.
        with contextlib.suppress(*UNFIT):
            made.extend(kind.mutate(groups, facts))
    yield from sorted([*made, *_together(made)], key=lambda variant: variant.rank)


def _together(made: list[Variant]) -> Iterator[Variant]:
    """Yield each mutation that several operators share, applied to all of them at once."""
    alike: dict[tuple[str, str], list[Variant]] = {}
    for one in made:
        if "(number " in one.words and not one.replaced:
            alike.setdefault((one.kind, NUMBER.sub("", one.words)), []).append(one)
    for (kind, words), several in alike.items():
        rewrites = {number: rewrite for one in several for number, rewrite in one.rewrites.items()}
        whole = len(rewrites) == sum(len(one.rewrites) for one in several)
        if whole and 1 < len(several) <= TOGETHER:
            words = f"{words}, in all {len(several)} of the kind"
            yield Variant(kind, words, rewrites, several[0].rank + 1)
