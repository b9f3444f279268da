"""Search for the classic fault whose wrong reference equals the output, up to rounding.

Contract: `explain(case, finding)` adds a cause, or what is known instead, and never changes a verdict.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from agent.diagnosis import mutations, source_lines
from agent.diagnosis.mismatch import (
    constants,
    dependencies,
    distinguishing,
    error_structure,
    hypotheses,
    masked,
    misplaced,
    non_finite,
    pairs,
    precision,
    ranges,
    rounds,
    wording,
)
from agent.diagnosis.mismatch.case import Case, Hypothesis
from agent.diagnosis.mismatch.matching import Target, telling
from agent.diagnosis.mismatch.searching import Found, Search, closest, computable
from agent.diagnosis.tape import Tape
from agent.diagnosis.wrong_references import Facts
from agent.records import Finding

BUDGET_S = 1.65
"""CPU seconds for all hypotheses of one mismatch; waiting for a busy processor does not count."""
LARGEST_ELEMENTS = 1 << 25
"""Maximum number of output elements compared with variants; each needs several copies in float64."""
TOO_LARGE = "Too large to be compared with wrong references; judge smaller sizes for the cause."
ROUNDING = 1e-5
"""Maximum share of the error that a fault may leave unexplained if the fault amplifies rounding errors."""
ALIKE = 1e-3
"""Relative difference of the errors left by two faults, below which they count as one."""
FURTHER_AWAY = 10.0
"""Multiple of ROUNDING: the share of the error that faults of every other kind have to leave unexplained."""
COMMON = mutations.RANK + 2
"""Maximum rank of generic mutations (faults without a rule) that are tried before pairs of faults."""
RULES_SHARE = 0.25
"""Share of the remaining time for pairs of the rules' faults, once each is tried alone."""
PAIRS_SHARE = 0.7
"""Share of the remaining time for pairs with common mutations, once each is tried alone."""
PARTLY_SHARE = 0.5
"""Share of the remaining time for each further stage, once a fault explains part of the output.

Other outputs need time, too.
"""
CHANCE = 3
"""Number of wrong elements up to which a second draw has to agree.

With so few elements, one hypothesis in some thousands matches by chance.
"""


class _Stage(NamedTuple):
    """A list of hypotheses, with the share of time in which they are tried."""

    hypotheses: Iterable[Hypothesis]
    share: float = 1.0
    """Share of the remaining search time that the stage may use."""
    pairs: bool = False
    single: bool = False
    """True if the stage may hold a single fault as likely as a pair that was found before."""


class Explained(NamedTuple):
    """A finding, and the faults that this output cannot tell apart."""

    finding: Finding
    open: tuple[str, ...] = ()
    """Words of the faults that fit this output equally, the headline's first; empty if one or none is left.
    """
    named: tuple[str, ...] = ()
    """Words of all faults that explain the output, the headline's first."""
    unconfirmed: bool = False
    """True if so few elements agree that another output has to agree as well."""


def explain(
    case: Case,
    finding: Finding,
    among: tuple[str, ...] = (),
    budget_s: float = BUDGET_S,
    across: bool = False,
    beside: tuple[int, ...] = (),
) -> Explained:
    """Return `finding` with the cause of the wrong output, if one can be found.

    `among` restricts the search to hypotheses with these words, those that another output could not tell
    apart. `budget_s` is in CPU seconds. With `across`, faults that make samples depend on each other come
    first, since a few samples alone gave no cause. `beside` holds numbers of outputs to ignore.
    """
    if sum(tensor.numel() for tensor in case.outputs) > LARGEST_ELEMENTS:
        return Explained(wording.with_evidence(finding, TOO_LARGE))
    if not (targets := _targets(case, beside)):
        return Explained(precision.of_the_rms(case, finding), among)
    facts, tape = Facts.of(case.source), case.tape()
    lost = wording.unwritten(case, targets, facts)
    search = Search(targets, budget_s, among, _right(case, (*targets, *beside)))
    early = list(computable(hypotheses.early(case, tape, facts, across)))
    found = search.among([one for one in early if one.rank < mutations.RANK])
    if lost and not any(one.match.whole for one in found):
        return Explained(wording.with_evidence(lost, finding.evidence), named=(lost.kind,))
    number, target = first = next(iter(targets.items()))
    everywhere = target.count == target.y.numel()
    made = non_finite.made(tape, facts, number, target)
    rarer = _rarer(case, tape, first, search, early)
    found = _searched_on(search, found, chain([_Stage(() if everywhere else made)], rarer))
    told_apart = distinguishing.describe_condition(tape, target)
    placed = told_apart or wording.is_region(wording.pattern_of(targets, facts))
    if found and (found[0].match.placed or placed):
        chance = not among and sum(target.count for target in targets.values()) <= CHANCE
        told = wording.caused(case, found, targets, facts, finding, told_apart)
        if len(found[0].outputs) < len(targets):
            told = _with_others(case, told, (*beside, *found[0].outputs), search.left())
        return _named(told, found, chance)
    if known := (
        _of_later_outputs(case, targets, finding, beside, search.left())
        or _unmasked(case, tape, number, target, finding)
        or _rounded(case, tape, target, finding)
        or _nearly(case, search, target, finding)
    ):
        return known
    unknown = wording.unknown(case, targets, search, finding, found)
    unknown = _described(unknown, case, tape, first, told_apart)
    if everywhere and non_finite.only_places(target):
        unknown = non_finite.with_possible(unknown, made, target, number)
    return Explained(unknown, tuple(search.untold))


def _unmasked(case: Case, tape: Tape, number: int, target: Target, finding: Finding) -> Explained | None:
    """Report a mask of the reference that is not applied, if no other element is wrong."""
    found = masked.find_unapplied_mask(tape, number, target)
    if found is None:
        return None
    kind, words = found
    message = f"{wording.which(case, target)} is not masked: {words}."
    return Explained(Finding(kind=kind, message=message, evidence=finding.evidence), named=(words,))


def _rounded(case: Case, tape: Tape, target: Target, finding: Finding) -> Explained | None:
    """Report reduced precision of intermediate values."""
    found = precision.explain(case, tape, target)
    return None if found is None else Explained(wording.with_evidence(found, finding.evidence))


def _named(told: Finding, found: list[Found], chance: bool) -> Explained:
    kinds = {one.hypothesis.kind for one in found}
    named = tuple(one.hypothesis.words for one in found)
    return Explained(told, named if len(kinds) > 1 or chance else (), named, chance)


def _described(
    unknown: Finding, case: Case, tape: Tape, first: tuple[int, Target], told_apart: str | None
) -> Finding:
    """Add what is known of the first wrong output's elements and of its first wrong element."""
    number, target = first
    structure = misplaced.describe_misplaced(case, target) or error_structure.describe_structure(
        tape, number, target
    )
    unknown = _told_apart(unknown, told_apart or ranges.describe_range(tape, target), structure)
    return wording.with_evidence(unknown, dependencies.describe_dependency(case, tape, number, target))


def _told_apart(unknown: Finding, condition: str | None, structure: str | None) -> Finding:
    """Add what distinguishes wrong elements from right ones, and what their errors have in common."""
    apart = f"The wrong elements are those {condition}." if condition else None
    said = " ".join(filter(None, (unknown.message, apart, structure)))
    return unknown.model_copy(update={"message": said}) if unknown.kind == "unknown-cause" else unknown


def _rarer(
    case: Case, tape: Tape, first: tuple[int, Target], search: Search, early: list[Hypothesis]
) -> Iterator[_Stage]:
    """Yield stages of faults that take longer to try, the likelier lists first.

    `first` is the first wrong output with its number. The rare faults of `early` are tried here; its others
    were tried before.
    """
    (number, target), facts = first, Facts.of(case.source)

    def both(one: Hypothesis, other: Hypothesis) -> Hypothesis | None:
        return pairs.combined(tape, one, other)

    tried: set[tuple[int, int]] = set()

    def two(share: float = 1.0) -> _Stage:
        return _Stage(pairs.likely(case, both, search.seen, target, tried), share, pairs=True)

    yield _Stage(hypotheses.late(tape, facts))
    yield _Stage(constants.fitted(tape, number, target))
    yield two(RULES_SHARE)
    mutated = list(computable(hypotheses.mutated(tape, facts)))
    common = [one for one in mutated if one.rank <= COMMON]
    yield _Stage(common, single=True)
    # A fault in a single step of a loop is rare.
    yield _Stage([one for one in early if one.rank >= mutations.RANK])
    yield two(PAIRS_SHARE)
    yield _Stage([one for one in mutated if one.rank > COMMON])
    yield two()


def _searched_on(search: Search, found: list[Found], stages: Iterable[_Stage]) -> list[Found]:
    """Return what explains the output, stopping at the first stage that explains it everywhere."""
    for stage in stages:
        sure = [
            one
            for one in found
            if one.match.whole and one.hypothesis.kind not in pairs.UNLIKELY and not one.is_rough
        ]
        if any(one.hypothesis.rank < pairs.RANK for one in sure):
            break
        if sure and not stage.single:
            continue
        if found and found[0].match.whole and stage.pairs:
            # A pair of faults is no more likely than one unlikely slip.
            continue
        share = stage.share * (PARTLY_SHARE if found else 1.0)
        found = closest([*found, *search.among(stage.hypotheses, share)])
        if search.out_of_time:
            # Building the next stage's hypotheses takes time as well.
            break
    return found


def of_several(cases: Sequence[Case], finding: Finding) -> Explained:
    """Explain outputs of few elements, given one candidate's outputs on several draws."""
    whole = rounds.together(cases)
    targets, facts = _targets(whole), Facts.of(whole.source)
    found = rounds.search(cases, targets, facts, BUDGET_S) if targets else []
    if not found or not found[0].match.whole:
        return Explained(finding)
    told = wording.caused(whole, found, targets, facts, finding)
    return Explained(told, (), tuple(one.hypothesis.words for one in found))


def _with_others(case: Case, told: Finding, beside: tuple[int, ...], budget_s: float) -> Finding:
    """Add the cause of those wrong outputs that the first cause does not explain."""
    more = explain(case, told, budget_s=budget_s, beside=beside)
    rest = ", ".join(map(str, _targets(case, beside)))
    said = more.finding.message if more.named else f"Output {rest} is wrong besides."
    return told.model_copy(update={"message": f"{told.message} {said}"})


def _of_later_outputs(
    case: Case, targets: dict[int, Target], finding: Finding, beside: tuple[int, ...], budget_s: float
) -> Explained | None:
    """Explain a later wrong output when no cause of the first wrong one is known."""
    if len(targets) < 2:
        return None
    first = next(iter(targets))
    found = explain(case, finding, budget_s=budget_s, beside=(*beside, first))
    if not found.named:
        return None
    message = f"{found.finding.message} Output {first} is wrong besides."
    return found._replace(finding=found.finding.model_copy(update={"message": message}))


def never_written(case: Case, finding: Finding) -> Explained | None:
    """Explain a region that holds one value, as if never written; no reference is needed."""
    targets = _targets(case)
    lost = wording.unwritten(case, targets, Facts.of(case.source)) if targets else None
    return Explained(wording.with_evidence(lost, finding.evidence)) if lost is not None else None


def _targets(case: Case, beside: tuple[int, ...] = ()) -> dict[int, Target]:
    """Return the wrong outputs by number, without those in `beside`."""
    made = {
        place: Target(y, truth, limit)
        for place, (y, truth, limit) in enumerate(zip(case.outputs, case.truth, case.limits, strict=True))
        if place not in beside and y.numel() and y.shape == truth.shape
    }
    return {place: target for place, target in made.items() if target.count}


def _right(case: Case, wrong: tuple[int, ...]) -> dict[int, Target]:
    """Return the outputs by number, without those in `wrong`."""
    return {
        place: Target(y, truth, limit)
        for place, (y, truth, limit) in enumerate(zip(case.outputs, case.truth, case.limits, strict=True))
        if place not in wrong and y.numel() and y.shape == truth.shape
    }


def _nearly(case: Case, search: Search, target: Target, finding: Finding) -> Explained | None:
    """Report a wrong reference that explains the error except rounding, if faults of no other kind do."""
    if search.closest is None or search.closest[1].rank >= pairs.RANK or target.count < pairs.LEAST:
        return None
    nearness, hypothesis = search.closest
    # A fault that leaves the same error is the same function by another name.
    left = max(1 - nearness, 1e-15)
    apart = (other for other in search.near.values() if abs(other - left) > ALIKE * left)
    others = min(apart, default=1.0)
    if 1 - nearness > ROUNDING or others < FURTHER_AWAY * ROUNDING or not telling(target.y[target.wrong]):
        return None
    lines = wording.lines_of(hypothesis)
    message = (
        f"{wording.which(case, target)} equals the reference {hypothesis.words}, but for rounding.{lines}"
    )
    said = f"It explains {100 * nearness:.6g} % of the error. Likely, not certain."
    location = source_lines.find(case.source, hypothesis.tokens)
    told = Finding(kind=hypothesis.kind, message=message, location=location, evidence=said)
    return Explained(wording.with_evidence(told, finding.evidence), named=(hypothesis.words,))
