"""Search that tries hypotheses on a wrong output within a time limit and keeps those that match."""

import contextlib
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from agent.diagnosis import mutations
from agent.diagnosis.mismatch import non_finite, pairs
from agent.diagnosis.mismatch.case import Hypothesis, Tensor
from agent.diagnosis.mismatch.matching import Match, Target
from agent.diagnosis.mismatch.pairs import AND, RANK, Seen

CLOSER = 4.0
"""Maximum ratio of a hypothesis's residual to the smallest one for it to be kept."""
NEARBY = 0.9
"""Minimum share of the error that a close wrong reference explains; zeros explain half of noise."""
UNLIKELY = 7
"""Ranks added for an unlikely slip, since what it explains mostly has another explanation as well."""
FURTHER = 40
"""Maximum number of rare hypotheses or pairs tried after one that agrees; another may agree as well."""

ROUGH = 3e-6
"""Error relative to the largest element that the same computation in float32 hardly ever exceeds."""

FAILING = (RuntimeError, ArithmeticError, LookupError, ValueError, TypeError, AttributeError, AssertionError)
"""Exceptions of a wrong reference that cannot be computed."""


class Found(NamedTuple):
    """A hypothesis that agrees with the output."""

    hypothesis: Hypothesis
    match: Match

    outputs: tuple[int, ...]
    """Numbers of the wrong outputs that the hypothesis explains, including the first wrong one."""

    keeps: bool = True
    """True if the hypothesis leaves right outputs right."""

    @property
    def is_rough(self) -> bool:
        """Return True if the match is within tolerance but not as close as the same computation would be."""
        return self.match.residual > ROUGH * self.match.size

    def order(self) -> tuple[int, bool, bool, int]:
        rare = self.hypothesis.kind in pairs.NOT_OF_TWO
        return -len(self.outputs), not self.match.whole, rare, likelihood(self.hypothesis)


def likelihood(hypothesis: Hypothesis) -> int:
    """Return the rank of a hypothesis, increased for unlikely slips."""
    return hypothesis.rank + (UNLIKELY if hypothesis.kind in pairs.UNLIKELY else 0)


class Search:
    """A search that tries hypotheses on the wrong outputs until its time is over."""

    def __init__(
        self,
        targets: dict[int, Target],
        budget_s: float,
        only: tuple[str, ...] = (),
        right: dict[int, Target] | None = None,
    ) -> None:
        """Start the clock of `budget_s` CPU seconds.

        `only` restricts the search to hypotheses with these words and to the parts of pairs with these words.
        """
        self._right = right or {}
        self._targets, self._only = targets, {part for words in only for part in (words, *words.split(AND))}
        # Many wrong references are non-finite in the same places, so only the kinds of faults that claim no
        # more than these places are tried.
        self._places = non_finite.only_places(next(iter(targets.values())))
        self._until = time.thread_time() + budget_s
        self.tried = self.failed = 0
        self.out_of_time = False
        self.untold: list[str] = []
        """Words of hypotheses that agree with an output too poor to tell them from others."""
        self.closest: tuple[float, Hypothesis] | None = None
        self.closest_pair = (NEARBY, "")
        """Share of the error that the closest pair explains, and its words."""
        self.near: dict[str, float] = {}
        """Smallest share of the error left unexplained by the wrong references of each kind."""
        self.seen: list[Seen] = []

    def left(self) -> float:
        """Return the CPU seconds left for the search."""
        return max(self._until - time.thread_time(), 0.0)

    def among(self, candidates: Iterable[Hypothesis], share: float = 1.0) -> list[Found]:
        """Return all matches up to the rank of the first that agrees everywhere.

        `share` is the share of the remaining time that may be used.
        """
        found: list[Found] = []
        until = self._until - (1 - share) * self.left()
        best: int | None = None
        after = 0
        for hypothesis in computable(candidates):
            if self._only and hypothesis.words not in self._only:
                continue
            if self._places and hypothesis.kind not in non_finite.MADE_HERE:
                continue
            if best is not None and likelihood(hypothesis) > best + 1:
                continue
            if time.thread_time() > until:
                self.out_of_time = self.out_of_time or share == 1.0
                break
            after += best is not None
            if best is not None and best >= mutations.RANK and after > FURTHER:
                break
            one = self._tried(hypothesis)
            if one is not None:
                found.append(one)
                everything = one.match.whole and one.keeps and len(one.outputs) == len(self._targets)
                everything = everything and not one.is_rough
                rank = likelihood(hypothesis)
                best = rank if everything and (best is None or rank < best) else best
        return closest(found)

    def _tried(self, hypothesis: Hypothesis) -> Found | None:
        self.tried += 1
        try:
            values = hypothesis.outputs()
            some = {
                place: target.sampled(values[place])
                for place, target in self._targets.items()
                if values[place].numel() == target.y.numel()
            }
            matches = {
                place: target.match(values[place], some.get(place)) for place, target in self._targets.items()
            }
        except FAILING:
            # A wrong reference that cannot be computed is not what the candidate computes.
            self.failed += 1
            return None
        self._note(hypothesis, some)
        place, target = next(iter(self._targets.items()))
        if hypothesis.rewrites is not None and values[place].shape == target.shape:
            self.seen.append(Seen(hypothesis, some[place]))
        if hypothesis.rank >= RANK and not all(one is None or one.whole for one in matches.values()):
            return None
        agreeing = {place: match for place, match in matches.items() if match is not None}
        if next(iter(self._targets)) not in agreeing:
            return None
        if self._places and not agreeing[place].whole:
            return None
        known = list(agreeing.values())
        match = Match(
            all(one.whole for one in known),
            max(one.residual for one in known),
            max(one.departure for one in known),
            any(one.telling for one in known),
            all(one.placed for one in known),
            max(one.size for one in known),
        )
        if not match.telling:
            self.untold.append(hypothesis.words)
            return None
        return Found(hypothesis, match, tuple(agreeing), self._keeps(values))

    def _keeps(self, values: list[Tensor]) -> bool:
        return all(
            values[place].shape != one.shape or one.is_right(values[place])
            for place, one in self._right.items()
        )

    def _note(self, hypothesis: Hypothesis, some: dict[int, Tensor]) -> None:
        nearness = min(
            target.nearness(some[place]) if place in some else -1.0 for place, target in self._targets.items()
        )
        if hypothesis.rank >= RANK:
            # A pair with a fault that hardly changes anything is as close as the other fault alone.
            self.closest_pair = max(self.closest_pair, (nearness, hypothesis.words))
            return
        self.near[hypothesis.kind] = min(1 - nearness, self.near.get(hypothesis.kind, 1.0))
        if nearness > (self.closest[0] if self.closest else NEARBY):
            self.closest = nearness, hypothesis


def computable(candidates: Iterable[Hypothesis]) -> Iterator[Hypothesis]:
    """Yield hypotheses until one cannot be made; fitting constants runs the reference and may fail."""
    with contextlib.suppress(*FAILING):
        yield from candidates


def closest(found: list[Found]) -> list[Found]:
    """Return the matches with the least error, in order.

    Matches of a region count only if no match agrees everywhere.
    """
    most = max((len(one.outputs) for one in found), default=0)
    found = [one for one in found if len(one.outputs) == most]
    if any(one.keeps for one in found):
        found = [one for one in found if one.keeps]
    if any(one.match.whole for one in found):
        found = [one for one in found if one.match.whole]
    least = min((one.match.residual for one in found), default=0.0)
    return sorted((one for one in found if one.match.residual <= CLOSER * least), key=Found.order)
