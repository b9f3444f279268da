"""Wrong references that nobody has thought of: every value, operator and number of the reference changed.

The rules of `agent.diagnosis.wrong_references` know what is common of an operator. What is made here knows of
no operator: a value negated, shifted or read along another dimension, another value in its place, an operator
exchanged for another of its form or moved along the chain, another number among its arguments. Steps of a
loop, which the same instruction of the reference runs, are changed together.
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
"""Above that of every rule: what has a name of its own is called by it."""
TOGETHER = 8
"""More that are alike are not tried at once."""


def of(groups: Groups, facts: Facts) -> Iterator[Variant]:
    """All of them, the likelier first."""
    made: list[Variant] = []
    for kind in (
        functions, moves, others, parameters, reductions, values, bounds, carried, counts, exchanges, tiles,
        numbers,
    ):  # fmt: skip
        # What cannot be changed for its type or shape ends its own kind of changes, not the others.
        with contextlib.suppress(*UNFIT):
            made.extend(kind.of(groups, facts))
    yield from sorted([*made, *_together(made)], key=lambda variant: variant.rank)


def _together(made: list[Variant]) -> Iterator[Variant]:
    """What several operators have alike, in all of them at once."""
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
