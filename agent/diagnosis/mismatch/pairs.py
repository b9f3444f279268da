"""Search for two faults in one answer: pairs of wrong references, the likeliest first.

The effect of each single fault is known from the search for single faults. Some pairs have changes that add
up, or factors that multiply, to the error. They are tried in turn with pairs of which one fault alone
explains much of the error or corrects many elements. A pair is a hypothesis like any other and counts if it
gives the output.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import zip_longest
from typing import NamedTuple

import torch

from agent.diagnosis import mutations
from agent.diagnosis.graph import Rewrite, tensors
from agent.diagnosis.mismatch import relations
from agent.diagnosis.mismatch.case import Case, Hypothesis
from agent.diagnosis.mismatch.matching import Target
from agent.diagnosis.tape import Tape
from agent.diagnosis.wrong_references.composing import composed

Tensor = torch.Tensor
ADDED_UP = 300
"""Maximum number of pairs tried because their changes add up to the error.

As many pairs are tried because their factors multiply to the error.
"""
FIRSTS = 12
"""Number of single faults, the best by each measure, that are paired with every other fault."""
RANK = 10
"""Rank of pairs, above that of every single fault."""
PLAIN = 2
"""Maximum rank of a rule's fault in pairs whose changes add up to the error."""
PLAINEST = 1200
"""Maximum number of faults from which pairs whose changes add up are made."""
SILENT = 200
"""Maximum number of faults without an effect of their own that are tried in pairs."""
MOST = 6000
"""Maximum number of faults with an effect of their own that are tried in pairs."""
BESIDE = 1000
"""Maximum number of partners tried for one fault."""
RARER = 0.02
"""Amount by which each rank lowers the score of a fault as a partner."""
MENDED = 4
"""Minimum number of sampled wrong elements that a fault corrects alone to guide the choice of its partner."""
RAREST = mutations.RANK + 2
"""Maximum rank of a fault in a pair. Pairs of rarer faults mostly equal some single fault."""
NOT_OF_TWO = frozenset({"operator-doubled", "truncated-to-integer"})
"""Kinds that are only claimed of single faults."""
UNLIKELY = frozenset({"operator-doubled", "scale-doubled", "truncated-to-integer"})
"""Kinds of unlikely slips; what they explain mostly has another explanation as well."""
MUTATED = mutations.RANK
"""Lowest rank of generic mutations."""
COLUMNS = 128
"""Approximate number of elements by which changes are added up, to limit the cost with many faults."""
LOST = frozenset(
    {"scan-restarts", "scan-not-reset", "lost-lanes", "lost-last-block", "partial-sums-not-combined",
     "last-element-left-out"}
)  # fmt: skip
"""Kinds whose faults rank low because they are many, not because they are rare."""
DIVIDES = frozenset(
    {"wrong-divisor", "sum-for-mean", "mean-for-sum", "pool-divisor", "scale-missing", "scale-doubled"}
)
"""Kinds that together with a fitted factor are one fault: another divisor."""
ALL_ALIKE = frozenset({"keepdim-broadcast", "index-ignored", "first-batch-only"})
"""Kinds that give one value to all elements. With a fitted factor they match any constant output."""
SHIFTS = frozenset({"index-off-by-one"})
"""Kinds of which two faults undo or repeat each other, so that their pair is one fault by another name."""
ALIKE = 1e-4
AND = ", and "
LEAST = 8
"""Minimum number of wrong elements for pairs to be tried."""
Both = Callable[[Hypothesis, Hypothesis], Hypothesis | None]
"""Function from two faults to their pair; None if they exclude each other."""


class Seen(NamedTuple):
    """A single fault, and a sample of the output that it gives."""

    hypothesis: Hypothesis
    values: Tensor


def likely(
    case: Case, both: Both, seen: list[Seen], target: Target, tried: set[tuple[int, int]], least: int = LEAST
) -> Iterator[Hypothesis]:
    """Yield pairs of the single faults in `seen`, the likeliest first.

    Pairs in `tried` (by `id`) are skipped; new ones are added to it.
    """
    faults = _different(seen, target)
    if target.count < least:
        return
    known, unknown = _times_a_constant(case, both, faults, target)
    yield from known
    for one, other in _order(faults, target) if len(faults) > 1 else ():
        # The likelier fault of the two gives the headline.
        first, second = sorted((faults[one].hypothesis, faults[other].hypothesis), key=_rank)
        if one == other or (id(first), id(second)) in tried:
            continue
        tried.add((id(first), id(second)))
        made = both(first, second)
        if made is not None:
            yield made
    # Factors without a known cause come last.
    yield from unknown


def _times_a_constant(
    case: Case, both: Both, faults: list[Seen], target: Target
) -> tuple[list[Hypothesis], list[Hypothesis]]:
    """Return the faults that match the output up to a fitted factor.

    The first list has the faults whose factor follows from sizes of the problem, the second all others.
    """
    known_ones: list[Hypothesis] = []
    others: list[Hypothesis] = []
    y = target.sampled(target.y)
    for one in [one for one in faults if one.hypothesis.kind not in DIVIDES]:
        square = float(one.values.square().sum())
        factor = float((one.values * y).sum()) / square if square else 0.0
        near = (y - factor * one.values).square().sum() <= ALIKE**2 * y.square().sum()
        if bool(near) and abs(factor - 1) > ALIKE:
            known = relations.explained(factor, case)
            words = (
                f"times {factor:.6g}"
                + (f" = {known}" if known else "")
                + ": a wrong divisor or factor (scale)"
            )
            times = lambda outputs, f=factor: [f * t for t in outputs]  # noqa: E731
            scaled = Hypothesis("wrong-divisor", words, lambda: [], 3, "/", {}, {}, times)
            made = both(one.hypothesis, scaled)
            if made is not None and (known or one.hypothesis.kind not in ALL_ALIKE):
                (known_ones if known else others).append(made)
    return known_ones, others


def _different(seen: list[Seen], target: Target) -> list[Seen]:
    """Return the faults that can be part of a pair; of several faults with the same effect the first.

    Some faults without an effect are kept, since they may have one beside another fault. An example is a
    wrong slope for negative values that do not occur.
    """
    truth, known = target.sampled(target.truth), set()
    kept: list[Seen] = []
    silent: list[Seen] = []
    for one in sorted(seen, key=lambda one: one.hypothesis.rank):
        if (
            one.hypothesis.rewrites is None
            or one.hypothesis.rank > RAREST
            or one.hypothesis.kind in NOT_OF_TWO
        ):
            continue
        if torch.equal(one.values, truth):
            silent.append(one)
            continue
        key = (one.values.float().numpy().tobytes(), one.hypothesis.then is None)
        if key not in known:
            known.add(key)
            kept.append(one)
    return [*kept[:MOST], *silent[:SILENT]]


def _rank(fault: Hypothesis) -> int:
    return fault.rank


def _is_plain(fault: Hypothesis) -> bool:
    """Return True if the fault is common enough for pairs whose changes add up to the error."""
    plain = (fault.rank <= PLAIN or MUTATED <= fault.rank <= MUTATED + 1) and fault.kind not in UNLIKELY
    return plain or fault.kind in LOST


def _order(faults: list[Seen], target: Target) -> Iterator[tuple[int, int]]:
    """Yield pairs of indices of faults, the likelier first; pairs may repeat."""
    y, truth = target.sampled(target.y).nan_to_num(), target.sampled(target.truth).nan_to_num()
    values = torch.stack([one.values for one in faults]).nan_to_num()
    plain = [place for place, one in enumerate(faults) if _is_plain(one.hypothesis)][:PLAINEST]
    by_sum = _adding_up((values - truth)[plain], y - truth)
    known = (y != 0) & (truth != 0)
    quotients = (values[plain][:, known] / truth[known]).abs().clamp(1e-9, 1e9).log()
    by_factor = _adding_up(quotients, (y / truth)[known].abs().clamp(1e-9, 1e9).log())
    ranks = torch.tensor([float(one.hypothesis.rank) for one in faults], dtype=torch.float64)
    alone = _beside(_firsts(values, y, truth), values, (y, truth), ranks)
    lists = [
        ((plain[one], plain[other]) for one, other in by_sum),
        ((plain[one], plain[other]) for one, other in by_factor),
        alone,
        alone,
    ]
    while lists:
        for each in tuple(lists):
            pair = next(each, None)
            if pair is None:
                lists.remove(each)
            else:
                yield pair


def _beside(
    firsts: list[int], values: Tensor, known: tuple[Tensor, Tensor], ranks: Tensor
) -> Iterator[tuple[int, int]]:
    """Yield pairs of each first fault and a partner that fits the remaining error, the firsts in turn."""
    queues = []
    for place, first in enumerate(firsts):
        scores = _speaking(values[first], values, known) - RARER * ranks
        # Faults without an effect of their own come last.
        scores = scores - 4.0 * (values == known[1]).all(1)
        best = scores.topk(min(BESIDE, len(values))).indices.tolist()
        # The second-best first fault gets half as many turns as the best, the third-best a third.
        queues += [((depth + 1) * (place + 1), first, other) for depth, other in enumerate(best)]
    yield from ((first, other) for _, first, other in sorted(queues))


def _speaking(mine: Tensor, values: Tensor, known: tuple[Tensor, Tensor]) -> Tensor:
    """Score how well each fault complements `mine`.

    If `mine` corrects some elements, the other fault should leave these alone and change the rest. Otherwise
    the other fault's change should resemble the remaining error, as a sum or as a factor.
    """
    y, truth = known
    wrong = y != truth
    close = (mine - y).abs() <= ALIKE * (y.abs() + ALIKE)
    mended, left = close & wrong, wrong & ~close
    changed = values != truth
    if int(mended.sum()) >= MENDED and bool(left.any()):
        return (~changed[:, mended]).double().mean(1) + changed[:, left].double().mean(1)
    step = max(1, len(y) // COLUMNS)
    rest, more = (y - mine)[::step], (values - truth)[:, ::step]
    by_sum = _likeness(more, rest)
    quotient = (y / mine)[::step].nan_to_num(1.0).abs().clamp(1e-9, 1e9).log()
    factors = (values / truth)[:, ::step].nan_to_num(1.0).abs().clamp(1e-9, 1e9).log()
    return torch.maximum(by_sum, _likeness(factors, quotient))


def _likeness(changes: Tensor, wanted: Tensor) -> Tensor:
    """Return the cosine between each change and the wanted change."""
    sizes = changes.square().sum(1).sqrt() * wanted.square().sum().sqrt()
    return (changes @ wanted) / sizes.clamp_min(1e-300)


def _adding_up(changes: Tensor, wanted: Tensor) -> list[tuple[int, int]]:
    """Return the pairs whose changes best sum up to the wanted change, the closest first."""
    if not wanted.numel() or len(changes) < 2:
        return []
    step = max(1, wanted.numel() // COLUMNS)
    changes, wanted = changes[:, ::step].float(), wanted[::step].float()
    size = wanted.square().sum().sqrt().clamp_min(1e-30)
    changes, wanted = (changes / size).clamp(-1e3, 1e3), wanted / size
    own = changes.square().sum(1) - 2 * (changes @ wanted)
    left = own[:, None] + own[None, :] + 2 * (changes @ changes.t())
    left = left.masked_fill(torch.ones_like(left, dtype=torch.bool).tril(), torch.inf)
    best = left.flatten().topk(min(ADDED_UP, left.numel()), largest=False).indices
    return [(int(place) // len(left), int(place) % len(left)) for place in best]


def _firsts(values: Tensor, y: Tensor, truth: Tensor) -> list[int]:
    """Return the faults that alone correct the most elements, leave the least error or correlate the most."""
    wrong = y != truth
    near = ((values - y).abs() <= ALIKE * (y.abs() + ALIKE)) & wrong
    explained = -(values - y).square().sum(1)
    centred = values - values.mean(1, keepdim=True)
    alike = (centred @ (y - y.mean())).abs() / centred.square().sum(1).sqrt().clamp_min(1e-300)
    nothing = -(truth - y).square().sum()
    lists = [
        [place for place in measure.topk(min(FIRSTS, len(values))).indices.tolist() if measure[place] > least]
        for measure, least in ((near.sum(1).double(), 0.0), (explained, float(nothing)), (alike, 0.0))
    ]
    turns = [place for places in zip_longest(*lists) for place in places if place is not None]
    return list(dict.fromkeys(turns))


def combined(tape: Tape, one: Hypothesis, other: Hypothesis) -> Hypothesis | None:
    """Combine two faults; None if they exclude each other."""
    if one.then is not None and other.then is not None or one.kind == other.kind in SHIFTS:
        return None
    rewrites = _merged(one.rewrites or {}, other.rewrites or {})
    if rewrites is None or one.replaced.keys() & other.replaced.keys():
        return None
    replaced, then = {**one.replaced, **other.replaced}, one.then or other.then

    def outputs() -> list[Tensor]:
        made = tensors(tape.again(rewrites, replaced))
        return made if then is None else then(made)

    words = f"{one.words}{AND}{other.words}"
    lines = tuple(dict.fromkeys((*one.lines, *other.lines)))
    return Hypothesis(one.kind, words, outputs, RANK + one.rank + other.rank, one.tokens, lines=lines)


def _merged(one: Mapping[int, Rewrite], other: Mapping[int, Rewrite]) -> dict[int, Rewrite] | None:
    made = {**one, **other}
    for number in one.keys() & other.keys():
        both = composed(one[number], other[number])
        if both is None:
            return None
        made[number] = both
    return made
