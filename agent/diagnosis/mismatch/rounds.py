"""Search for the cause of a wrong output of few elements, such as a loss, over several draws of inputs.

A wrong reference becomes one vector over all draws. Faults that scale or add up are then found as in any
other output. The words of a fault identify it in every draw.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from agent.diagnosis import mutations
from agent.diagnosis.mismatch import hypotheses, pairs, relations
from agent.diagnosis.mismatch.case import Case, Hypothesis
from agent.diagnosis.mismatch.matching import Limit, Target
from agent.diagnosis.mismatch.searching import Found, Search
from agent.diagnosis.tape import Tape, record
from agent.diagnosis.wrong_references import Facts

Tensor = torch.Tensor
NUMBERS = 5
"""Number of elements, over all draws, that suffices to tell two faults apart.

None of some ten thousand pairs gives five float32 numbers by chance.
"""
COMMON = mutations.RANK + 1
"""Maximum rank of generic mutations that are tried."""
ALONE = 0.5
"""Share of the time for single faults; the remaining time is for pairs."""
SAME = 4
"""Minimum number of wrong elements, over all draws, for pairs to be tried."""


class _Draw(NamedTuple):
    """The case of one draw, and the result of every single fault there."""

    case: Case
    tape: Tape
    faults: dict[str, Hypothesis]


def together(cases: Sequence[Case]) -> Case:
    """Concatenate the outputs of all draws into one flat case."""
    first = cases[0]
    places = range(len(first.outputs))
    sizes = [[case.truth[place].numel() for case in cases] for place in places]
    return first._replace(
        outputs=[torch.cat([case.outputs[place].reshape(-1) for case in cases]) for place in places],
        truth=[torch.cat([case.truth[place].reshape(-1) for case in cases]) for place in places],
        limits=[_limit([case.limits[place] for case in cases], sizes[place]) for place in places],
        spreads=(),
    )


def search(cases: Sequence[Case], targets: dict[int, Target], facts: Facts, budget_s: float) -> list[Found]:
    """Return the single faults and multiples of the right output that agree with all draws, else pairs."""
    draws = []
    for case in cases:
        tape = record(case.run, case.names())
        mutated = (one for one in hypotheses.mutated(tape, facts) if one.rank <= COMMON)
        made = [*hypotheses.early(case, tape, facts), *mutated]
        # Where a mutation and a rule's fault have the same words, the rule's fault is kept.
        draws.append(
            _Draw(case, tape, {one.words: one for one in reversed(made) if one.rewrites is not None})
        )
    whole, tried = together(cases), Search(targets, budget_s)
    found = tried.among([*_singles(draws), *relations.multiples(whole)], ALONE)
    if found:
        return found
    both = lambda one, other: _both(draws, one, other)  # noqa: E731
    return tried.among(pairs.likely(whole, both, tried.seen, next(iter(targets.values())), set(), SAME))


def _singles(draws: list[_Draw]) -> Iterator[Hypothesis]:
    """Yield the faults that every draw can have, by rank."""
    for words, fault in sorted(draws[0].faults.items(), key=lambda item: item[1].rank):
        if all(words in draw.faults for draw in draws):
            yield _stacked([draw.faults[words] for draw in draws], fault)


def _both(draws: list[_Draw], one: Hypothesis, other: Hypothesis) -> Hypothesis | None:
    """Combine two faults in each draw.

    A fault that belongs to no draw, such as a fitted factor, is the same in every draw.
    """
    made = []
    for draw in draws:
        mine, others = (draw.faults.get(fault.words, fault) for fault in (one, other))
        pair = pairs.combined(draw.tape, mine, others)
        if pair is None:
            return None
        made.append(pair)
    return _stacked(made, made[0]._replace(rewrites=None))


def _stacked(faults: list[Hypothesis], like: Hypothesis) -> Hypothesis:
    def outputs() -> list[Tensor]:
        given = [fault.outputs() for fault in faults]
        return [torch.cat([t.reshape(-1) for t in values]) for values in zip(*given, strict=True)]

    return like._replace(outputs=outputs)


def _limit(limits: Sequence[Limit | None], sizes: Sequence[int]) -> Limit | None:
    """Combine the limits of the draws, each around its own values; None if a draw has no limit."""
    known = [limit for limit in limits if limit is not None]
    if len(known) < len(limits):
        return None

    def allowed(values: Tensor, amplification: float) -> Tensor:
        parts = torch.split(values, list(sizes))
        around = [limit(part, amplification) for limit, part in zip(known, parts, strict=True)]
        return torch.cat([torch.as_tensor(one).expand(n) for one, n in zip(around, sizes, strict=True)])

    return allowed
