"""A wrong output of few numbers, such as a loss, explained with those that other inputs give.

A wrong reference is then one vector of as many numbers as there were draws, and faults that scale or add up
are found as in any other output. What is known of a fault by itself it has in every draw by the same words.
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
"""So many tell two faults apart: of some ten thousand pairs none gives five numbers of float32 by chance."""
COMMON = mutations.RANK + 1
"""Rank up to which what no rule knows is tried."""
ALONE = 0.5
"""Share of the time for single faults; the rest is for two."""
SAME = 4
"""Elements that a pair explains at least, of several draws together."""


class _Draw(NamedTuple):
    """One output, and what every fault alone would have given there."""

    case: Case
    tape: Tape
    faults: dict[str, Hypothesis]


def together(cases: Sequence[Case]) -> Case:
    """The outputs of all draws as one, which has no shape."""
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
    """What all outputs agree with: single faults times a constant, and pairs."""
    draws = []
    for case in cases:
        tape = record(case.run, case.names())
        mutated = (one for one in hypotheses.mutated(tape, facts) if one.rank <= COMMON)
        made = [*hypotheses.early(case, tape, facts), *mutated]
        # Rules come first: of two that are called alike the rule's is kept.
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
    """Faults that every draw can have, by rank."""
    for words, fault in sorted(draws[0].faults.items(), key=lambda item: item[1].rank):
        if all(words in draw.faults for draw in draws):
            yield _stacked([draw.faults[words] for draw in draws], fault)


def _both(draws: list[_Draw], one: Hypothesis, other: Hypothesis) -> Hypothesis | None:
    """A fault of no draw, such as a fitted factor, is the same in each of them."""
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
    """Each draw's own around its values."""
    known = [limit for limit in limits if limit is not None]
    if len(known) < len(limits):
        return None

    def allowed(values: Tensor, amplification: float) -> Tensor:
        parts = torch.split(values, list(sizes))
        around = [limit(part, amplification) for limit, part in zip(known, parts, strict=True)]
        return torch.cat([torch.as_tensor(one).expand(n) for one, n in zip(around, sizes, strict=True)])

    return allowed
