"""Wording of findings for a wrong output: the cause, or the place of the errors if no cause is known."""

from agent.diagnosis import source_lines
from agent.diagnosis.mismatch import mismatch_location, precision
from agent.diagnosis.mismatch.case import Case, Hypothesis
from agent.diagnosis.mismatch.matching import Target, telling
from agent.diagnosis.mismatch.mismatch_location import Pattern
from agent.diagnosis.mismatch.searching import Found, Search
from agent.diagnosis.wrong_references import Facts
from agent.records import Finding

SURE = 20.0
"""Minimum ratio of the variant's distance from the truth to its distance from the output for a sure match."""
WRITTEN = 2
"""Minimum number of elements with other values, beside a region that is called never written."""
LINE = 100
"""Maximum number of characters shown of a line of the reference."""
NAMED = 3
"""Maximum number of further hypotheses with the same result that are named."""


def which(case: Case, target: Target) -> str:
    place = next(k for k, y in enumerate(case.outputs) if y.numel() == target.y.numel())
    return case.called or (f"Output {place}" if len(case.outputs) > 1 else "The output")


def lines_of(hypothesis: Hypothesis) -> str:
    """Quote the reference's lines that the fault changes."""
    short = [f"`{line[:LINE]}`" for line in hypothesis.lines[:2]]
    return f" In the reference: {' and '.join(short)}." if short else ""


def caused(
    case: Case,
    found: list[Found],
    targets: dict[int, Target],
    facts: Facts,
    finding: Finding,
    told_apart: str | None = None,
) -> Finding:
    best, *others = found
    kinds = {one.hypothesis.kind for one in others} - {best.hypothesis.kind}
    match, words = best.match, best.hypothesis.words
    place = next(iter(targets))
    which = case.called or (f"Output {place}" if len(case.outputs) > 1 else "The output")
    message = f"{which} equals the reference {words} (max error {match.residual:.1g})"
    if not match.whole:
        message += f" where it is wrong, {told_apart or where(targets, facts)}; elsewhere it is right"
    sure = match.whole and match.departure >= SURE * max(match.residual, 1e-300) and not kinds
    location = source_lines.find(case.source, best.hypothesis.tokens)
    message += f"; see line {location.line}." if location is not None and location.line else "."
    message += lines_of(best.hypothesis)
    if kinds:
        other = next(one.hypothesis for one in others if one.hypothesis.kind in kinds)
        message += f" On these inputs the same: the reference {other.words}."
    notes = [f"The right output is up to {match.departure:.2g} away."]
    if kinds:
        others = [one for one in others if one.hypothesis.kind in kinds][:NAMED]
        alike = "; the reference ".join(one.hypothesis.words for one in others)
        notes.append(f"On these inputs other faults give the same: the reference {alike}.")
    notes.append("Sure." if sure else "Likely, not certain.")
    kind = best.hypothesis.kind
    pattern = None if match.whole else pattern_of(targets, facts)
    if kind == "state-not-updated" and pattern is not None and pattern.kind is not None:
        # If only a region of a state is stale, that region was never written.
        kind = pattern.kind
    return Finding(
        kind=kind, message=message, location=location,
        evidence="\n".join([" ".join(notes), *([finding.evidence] if finding.evidence else [])]),
    )  # fmt: skip


def pattern_of(targets: dict[int, Target], facts: Facts) -> Pattern | None:
    """Return the pattern of the wrong elements of the first wrong output."""
    target = next(iter(targets.values()))
    return next(mismatch_location.patterns(target.wrong.reshape(target.shape), facts.blocks()), None)


def where(targets: dict[int, Target], facts: Facts) -> str:
    pattern = pattern_of(targets, facts)
    return pattern.words if pattern else "without a pattern in their indices"


def is_region(pattern: Pattern | None) -> bool:
    """Return True if the pattern determines the wrong elements, so that a cause may name them alone."""
    return pattern is not None and pattern.region


def unwritten(case: Case, targets: dict[int, Target], facts: Facts) -> Finding | None:
    """Report a region whose elements all hold zero or all NaN, with a pattern that names the cause."""
    place, target = next(iter(targets.items()))
    values = target.y[target.wrong]
    first = values[0]
    alike = target.y.isnan() if bool(first.isnan()) else target.y == first
    if not bool(alike[target.wrong].all()) or target.count == target.y.numel() or target.count < 2:
        return None
    if int((~alike).sum()) < WRITTEN:
        return None
    if float(first) != 0.0 and not bool(first.isnan()):
        return None
    for pattern in mismatch_location.patterns(target.wrong.reshape(target.shape), facts.blocks(), alike):
        if pattern.kind is not None:
            which = f"of output {place} " if len(case.outputs) > 1 else ""
            value = "NaN" if bool(first.isnan()) else "0"
            last = pattern.kind.startswith("l") and "last" not in pattern.words and bool(target.wrong[-1])
            message = (
                f"{target.count} elements {which}are {value}, as if never written: {pattern.words}"
                f"{', the last' if last else ''}. "
                "The rest is right."
            )
            tokens = r"<<<" if pattern.kind != "lost-lanes" else "shfl|%"
            return Finding(
                kind=pattern.kind, message=message, location=source_lines.find(case.source, tokens)
            )
    return None


def unknown(
    case: Case, targets: dict[int, Target], search: Search, finding: Finding, found: list[Found]
) -> Finding:
    """Return the finding for a mismatch that no fault explains: share and pattern of wrong elements."""
    place, target = next(iter(targets.items()))
    facts, partly = Facts.of(case.source), found[0].hypothesis.words if found else ""
    share = 100 * target.count / target.y.numel()
    which = f" of output {place}" if len(case.outputs) > 1 else ""
    message = (
        f"Cause unknown: {target.count} of {target.y.numel()} elements{which} ({share:.3g} %) are wrong, "
        f"{where(targets, facts)}."
    )
    notes = [f"None of {search.tried} wrong references gives this output."]
    if not telling(target.y[target.wrong]):
        notes = ["The wrong elements hold too few different values to tell wrong references apart."]
    notes += [precision.compared(case, place)] if target.y.numel() < precision.LEAST else []
    if search.out_of_time:
        notes.append("Time ran out before all were tried.")
    if partly:
        notes.append(f"Where it is wrong it equals the reference {partly}; elsewhere it is right.")
    else:
        nearness, words = search.closest_pair
        if search.closest is not None and search.closest[0] >= nearness:
            nearness, words = search.closest[0], search.closest[1].words
        if words:
            notes.append(f"Closest, with {100 * nearness:.3g} % of the error: the reference {words}.")
    kind = finding.kind if finding.kind != "wrong-values" else "unknown-cause"
    if kind != "unknown-cause":
        notes.append(f"Wrong: {where(targets, facts)}.")
    said = " ".join(filter(None, notes))
    evidence = "\n".join([said, *([finding.evidence] if finding.evidence else [])])
    return Finding(
        kind=kind, message=message if kind == "unknown-cause" else finding.message, evidence=evidence
    )


def with_evidence(finding: Finding, more: str | None) -> Finding:
    evidence = "\n".join(text for text in (finding.evidence, more) if text)
    return finding.model_copy(update={"evidence": evidence or None})
