"""Wrong references that nobody has thought of: every value, operator and number of the reference changed.

The rules of `agent.diagnosis.wrong_references` know what is common of an operator. What is made here knows of
no operator: a value negated, shifted or read along another dimension, another value in its place, an operator
exchanged for another of its form or moved along the chain, another number among its arguments. Steps of a
loop, which the same instruction of the reference runs, are changed together.
"""

from collections.abc import Iterator

from agent.diagnosis.mutations import functions, moves, others, parameters, reductions, values
from agent.diagnosis.mutations.groups import Groups
from agent.diagnosis.wrong_references import Facts, Variant

RANK = 5
"""Above that of every rule: what has a name of its own is called by it."""


def of(groups: Groups, facts: Facts) -> Iterator[Variant]:
    """All of them, the likelier first."""
    made = [
        variant
        for kind in (functions, moves, others, parameters, reductions, values)
        for variant in kind.of(groups, facts)
    ]
    yield from sorted(made, key=lambda variant: variant.rank)
