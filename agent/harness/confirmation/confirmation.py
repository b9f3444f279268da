"""A second look at a verified candidate that would be the best: what is kept has to be what users will run.

It is built by stock `load_inline` and judged and timed once more in a fresh sandbox, unless cheaper looks
refuse it: the emulator repeats its kernels without its host code, as far as it can run them, and
compute-sanitizer watches some calls. Where what is kept is slow, NVIDIA's counters are read for the
recommendation to the next attempt.
"""

from typing import NamedTuple

from agent import problems
from agent.diagnosis.performance import performance_advice
from agent.errors import AgentError
from agent.harness.confirmation import counters, sanitizer, unfollowed
from agent.harness.task import faults
from agent.harness.task.job import Announce, Job
from agent.problems import Shrunken
from agent.records import Evaluation, Finding, Scope, Stage, Status
from agent.torch_shim.finding_kinds import FindingKind

NEVER = (
    FindingKind.SHARED_RACE, FindingKind.GLOBAL_RACE_BETWEEN_BLOCKS, FindingKind.DIVERGENT_BARRIER,
    FindingKind.SHARED_UNINITIALISED_READ, "process-control", "hidden-library-call",
)  # fmt: skip
"""What no candidate may do at any size, though a GPU may give the right result all the same."""
OUT_OF_BOUNDS = (
    FindingKind.GLOBAL_OUT_OF_BOUNDS_READ, FindingKind.GLOBAL_OUT_OF_BOUNDS_WRITE,
    FindingKind.SHARED_OUT_OF_BOUNDS_READ, FindingKind.SHARED_OUT_OF_BOUNDS_WRITE,
    FindingKind.ARRAY_INDEX_OUT_OF_BOUNDS, FindingKind.FREED_POINTER, FindingKind.NULL_POINTER,
)  # fmt: skip
"""What counts unless the sizes may be the reason: a kernel may be made for the problem's own."""
OF_SHARED_MEMORY = (
    FindingKind.SHARED_RACE, FindingKind.SHARED_UNINITIALISED_READ, FindingKind.ASYNC_COPY_NOT_WAITED,
    FindingKind.MISSING_PROXY_FENCE, FindingKind.PRODUCT_NOT_WAITED, FindingKind.MBARRIER_MISUSE,
    FindingKind.CLUSTER_BARRIER, FindingKind.CLUSTER_PEER_GONE,
)  # fmt: skip
"""What of the emulator's findings speaks for a race that compute-sanitizer is not sure of."""
_DECLINED = ("sizes-declined", "defaults-changed")
"""Kinds of headlines that say it of the sizes that something is not supported."""
_RAN, _DID_NOT_RUN = "the emulator finds none in it", "the emulator did not check it"
BUILT = "built by stock load_inline"
"""Announced by the judge of the stock build before it takes its turn on the GPU."""
NOTHING_SEEN = Finding(
    kind="nothing-seen", message="At small sizes nothing shows against it.", severity="note"
)
"""The headline where looks at small sizes refuse nothing: they alone verify nothing either."""


class Look(NamedTuple):
    """What came of the looks before the second build."""

    status: Status | None
    """The verdict where they refuse."""
    findings: tuple[Finding, ...]
    skipped: tuple[str, ...]


def by_emulator(seen: Evaluation) -> Look:
    """What the emulator's verdict at small sizes means for a candidate that a GPU verified at its own."""
    if seen.status is Status.VERIFIED:
        return Look(None, (), ())
    if seen.status is Status.REJECTED or _whatever_the_size(seen):
        return Look(seen.status, seen.findings, ())
    headline = seen.headline
    said = f"{headline.kind}: {headline.message}" if headline else str(seen.status)
    skipped = (f"its kernels repeated without host code: on the emulator it is {seen.status} ({said})",)
    if seen.status is Status.UNSUPPORTED or headline is None:
        return Look(None, (), skipped)
    sizes = "At smaller sizes" if seen.scope.shapes == "shrunken" else "At the problem's own sizes"
    message = f"{sizes}, on the emulator: {headline.message}"
    return Look(None, (headline.model_copy(update={"message": message, "severity": "warning"}),), skipped)


def _whatever_the_size(seen: Evaluation) -> bool:
    """Whether an error was found that the sizes of the emulator's trial are no reason for."""
    found = [finding for finding in seen.findings if finding.severity != "note"]
    if any(finding.kind in NEVER for finding in found):
        return True
    same = seen.scope.shapes == "full" or faults.SOME_CALLS in seen.findings
    return same and any(finding.kind in OUT_OF_BOUNDS for finding in found)


def by_small_sizes(job: Job, scope: Scope, seen: Evaluation, announce: Announce) -> Evaluation:
    """What costs little says of a verified candidate: the emulator, which has `seen` it, then the sanitizer.

    *Unsupported* with NOTHING_SEEN where they do not refuse it.
    """
    looks = [by_emulator(seen)]
    if looks[0].status is None and not _has_decided(job, seen):
        assert job.shrunken is not None
        at = _at_its_own_sizes(job) if _may_need_its_own_sizes(job, seen) else job.shrunken
        looks.append(by_sanitizer(job, at, announce, seen))
    findings = sorted((f for look in looks for f in look.findings), key=lambda f: f.severity != "error")
    skipped = tuple(words for look in looks for words in look.skipped)
    look = Look(looks[-1].status, tuple(findings), skipped)
    return _evaluation(look, scope, "integrity").model_copy(update={"admission": job.admission})


def _has_decided(job: Job, seen: Evaluation) -> bool:
    """Return True where the emulator has checked every kernel's accesses and order: nothing is left to ask.

    Its sanitizer is the stricter of the two, over more draws. A kernel that no size brought to run there is
    left to compute-sanitizer.
    """
    return seen.status is Status.VERIFIED and not job.unchecked and not seen.scope.unexercised


def admits(looked: Evaluation) -> bool:
    """Whether those looks leave the verdict to the stock build."""
    return looked.headline is not None and looked.headline.kind == NOTHING_SEEN.kind


def joined(looked: Evaluation, stock: Evaluation) -> Evaluation:
    """The verdict on the stock build, with what those looks leave to be said."""
    notes = looked.findings[1:]
    verified = stock.status is Status.VERIFIED
    findings = (*notes, *stock.findings) if verified else (*stock.findings, *notes)
    skipped = tuple(dict.fromkeys((*stock.scope.skipped, *looked.scope.skipped)))
    scope = stock.scope.model_copy(update={"skipped": skipped})
    return stock.model_copy(update={"findings": findings, "scope": scope})


def _may_need_its_own_sizes(job: Job, seen: Evaluation) -> bool:
    """Whether a candidate that is right at the problem's sizes may go out of bounds at the small ones."""
    assert job.shrunken is not None
    if seen.status is not Status.UNSUPPORTED:
        # What does not do at the small sizes may be verified at others; some kernels run at the real ones.
        return (
            seen.status is not Status.VERIFIED
            or bool(seen.scope.unexercised)
            or seen.scope.sizes != job.shrunken.changed
        )
    declined = seen.headline is not None and seen.headline.kind in _DECLINED
    return declined or bool(problems.hard_coded(job.candidate.source, job.shrunken))


def _at_its_own_sizes(job: Job) -> Shrunken:
    assert job.shrunken is not None
    own = {"source": job.problem.source, "trace": job.problem.trace, "full": True}
    return job.shrunken.model_copy(update=own)


def by_sanitizer(job: Job, at: Shrunken, announce: Announce, seen: Evaluation | None = None) -> Look:
    """What compute-sanitizer says of some calls at these sizes.

    Its warnings, races that may be none, count where the emulator, which has `seen` the candidate, found
    fault with its shared memory as well.
    """
    found, skipped = sanitizer.check(job, at, announce)
    if seen is not None and any(f.kind in OF_SHARED_MEMORY and f.severity == "error" for f in seen.findings):
        found = [finding.model_copy(update={"severity": "error"}) for finding in found]
    if any(finding.severity == "error" for finding in found):
        return Look(Status.RUNTIME_ERROR, tuple(found), skipped)
    checked = seen is not None and seen.status is Status.VERIFIED and not job.unchecked
    missed = seen.scope.unexercised if seen is not None and checked else None
    return Look(None, tuple(found), (*skipped, *(_not_counted(finding, missed) for finding in found)))


def _not_counted(race: Finding, unexercised: tuple[str, ...] | None) -> str:
    """Words for the scope; `unexercised`: what the emulator did not run of what it checked, if it did."""
    kernel = race.location.kernel if race.location else None
    ran = unexercised is not None and not any(name.startswith(str(kernel)) for name in unexercised)
    return (
        f"races in shared memory: racecheck reports one in {kernel}, whose threads wait for {unfollowed.BY}, "
        f"which it does not always follow; not counted, {_RAN if ran else _DID_NOT_RUN}"
    )


def sanitized(job: Job, scope: Scope, announce: Announce) -> Evaluation:
    """The same as an evaluation, at small sizes."""
    assert job.shrunken is not None
    return _evaluation(by_sanitizer(job, job.shrunken, announce), scope, "run")


def _evaluation(look: Look, scope: Scope, stage: Stage) -> Evaluation:
    scope = scope.model_copy(update={"skipped": (*scope.skipped, *look.skipped)})
    if look.status is None:
        findings = (NOTHING_SEEN, *look.findings)
        return Evaluation(status=Status.UNSUPPORTED, stage=stage, scope=scope, findings=findings)
    return Evaluation(status=look.status, stage=stage, scope=scope, findings=look.findings)


def with_counters(job: Job, verdict: Evaluation, announce: Announce) -> Evaluation:
    """The same verdict; its recommendation, where there is one, is what NVIDIA's counters speak for."""
    measured, profile, trace = verdict.measurement, verdict.profile, job.problem.trace
    if measured is None or profile is None or job.shrunken is None:
        return verdict
    kernels = verdict.build.kernels if verdict.build else ()
    plain = performance_advice.recommendation(measured, trace, kernels, profile)
    if plain is None:
        return verdict
    try:
        seen = counters.read(job, job.shrunken, profile, announce)
    except AgentError as fault:
        seen = counters.Read([], f"ncu's counters: {fault}")
    advice = performance_advice.recommendation(measured, trace, kernels, profile, seen.launches) or plain
    left_out = (seen.left_out,) if seen.left_out else ()
    scope = verdict.scope.model_copy(update={"skipped": (*verdict.scope.skipped, *left_out)})
    kept = tuple(advice if finding.kind == plain.kind else finding for finding in verdict.findings)
    return verdict.model_copy(update={"scope": scope, "findings": kept})
