"""Two faults in one answer: pairs of wrong references, the likeliest first.

What each fault alone changes is known from the search for one. Pairs whose changes add up to the error, or
whose factors multiply up to it, take turns with those of one that explains much of the error or agrees with
many elements, and any other. A pair is a hypothesis like any other: it counts where it gives the output.
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
ADDED_UP = 400
"""Pairs that are tried because their changes add up to the error, at most; as many by their factors."""
FIRSTS = 12
"""Faults that explain most by themselves: each is tried with all others."""
RANK = 10
"""Above that of every single fault."""
PLAIN = 2
"""Rank of the rarest fault that is one of two: rarer ones, in twos, give what another single fault gives."""
MUTATED = mutations.RANK
"""Rank of what no rule knows, and above."""
COLUMNS = 128
"""Elements by which changes are added up, where there are many faults."""
LOST = frozenset(
    {"scan-restarts", "scan-not-reset", "lost-lanes", "lost-last-block", "partial-sums-not-combined",
     "last-element-left-out"}
)  # fmt: skip
"""Kinds whose faults are ranked low because they are many, not because they are rare."""
DIVIDES = frozenset(
    {"wrong-divisor", "sum-for-mean", "mean-for-sum", "pool-divisor", "scale-missing", "scale-doubled"}
)
"""Kinds that with a fitted factor are one fault: another divisor."""
ALIKE = 1e-4
AND = ", and "
LEAST = 16
"""A pair explains no fewer wrong elements."""
Both = Callable[[Hypothesis, Hypothesis], Hypothesis | None]
"""From two faults to their pair; None where they exclude each other."""


class Seen(NamedTuple):
    """A fault by itself, and some elements of the output that it gives."""

    hypothesis: Hypothesis
    values: Tensor


def likely(
    case: Case, both: Both, seen: list[Seen], target: Target, least: int = LEAST, mutated: bool = False
) -> Iterator[Hypothesis]:
    """Pairs of what was seen, the likeliest first; without repetition. `mutated`: with what no rule knows."""
    faults = _different([one for one in seen if mutated or one.hypothesis.rank < MUTATED], target)
    if target.count < least:
        return
    known, unknown = _times_a_constant(case, both, faults, target)
    yield from known
    if len(faults) < 2:
        yield from unknown
        return
    done: set[tuple[int, int]] = set()
    for one, other in _order(faults, target):
        if mutated and max(faults[one].hypothesis.rank, faults[other].hypothesis.rank) < MUTATED:
            continue
        pair = (min(one, other), max(one, other))
        if one != other and pair not in done:
            done.add(pair)
            made = both(faults[one].hypothesis, faults[other].hypothesis)
            if made is not None:
                yield made
    # A bare number is said where no fault is known that brings it about.
    yield from unknown


def _times_a_constant(
    case: Case, both: Both, faults: list[Seen], target: Target
) -> tuple[list[Hypothesis], list[Hypothesis]]:
    """What is alike but for a factor, which is fitted: those with a factor that sizes explain, and others."""
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
            if made is not None:
                (known_ones if known else others).append(made)
    return known_ones, others


def _is_plain(fault: Hypothesis) -> bool:
    """Whether it is common enough to be one of two."""
    plain = (fault.rank <= PLAIN or MUTATED <= fault.rank <= MUTATED + 1) and fault.kind != "operator-doubled"
    return fault.rewrites is not None and (plain or fault.kind in LOST)


def _different(seen: list[Seen], target: Target) -> list[Seen]:
    """Those that can be one of two and change something; of several that change the same the first."""
    truth, kept, known = target.sampled(target.truth), [], set()
    for one in sorted(seen, key=lambda one: one.hypothesis.rank):
        if not _is_plain(one.hypothesis) or torch.equal(one.values, truth):
            continue
        key = (one.values.float().numpy().tobytes(), one.hypothesis.then is None)
        if key not in known:
            known.add(key)
            kept.append(one)
    return kept


def _order(faults: list[Seen], target: Target) -> Iterator[tuple[int, int]]:
    """Pairs of places, the likelier first, with repetition."""
    y, truth = target.sampled(target.y).nan_to_num(), target.sampled(target.truth).nan_to_num()
    values = torch.stack([one.values for one in faults]).nan_to_num()
    by_sum = _adding_up(values - truth, y - truth)
    known = (y != 0) & (truth != 0)
    quotients = (values[:, known] / truth[known]).abs().clamp(1e-9, 1e9).log()
    by_factor = _adding_up(quotients, (y / truth)[known].abs().clamp(1e-9, 1e9).log())
    firsts = _firsts(values, y, truth)
    alone = [(first, other) for first in firsts for other in range(len(faults))]
    lists = [iter(by_sum), iter(by_factor), iter(alone)]
    while lists:
        for each in tuple(lists):
            pair = next(each, None)
            if pair is None:
                lists.remove(each)
            else:
                yield pair


def _adding_up(changes: Tensor, wanted: Tensor) -> list[tuple[int, int]]:
    """Pairs whose changes sum up to what is wanted, the closest first."""
    if not wanted.numel():
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
    """Those that alone agree with the most wrong elements, explain the most, or are the most alike."""
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
    """Both faults; None where they exclude each other."""
    if one.then is not None and other.then is not None:
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
