"""Second look at a verified candidate that would be the best, judged in the form that users will run.

Stock `load_inline` builds the candidate, and a fresh sandbox judges and times it once more. Two cheaper
checks come first and may refuse it. The emulator replays the candidate's kernels without its host code, and
compute-sanitizer watches some calls. Slow candidates are profiled with NVIDIA's counters for the
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
"""Findings that refuse a candidate at any size, even if a GPU happens to give the right result."""
OUT_OF_BOUNDS = (
    FindingKind.GLOBAL_OUT_OF_BOUNDS_READ, FindingKind.GLOBAL_OUT_OF_BOUNDS_WRITE,
    FindingKind.SHARED_OUT_OF_BOUNDS_READ, FindingKind.SHARED_OUT_OF_BOUNDS_WRITE,
    FindingKind.ARRAY_INDEX_OUT_OF_BOUNDS, FindingKind.FREED_POINTER, FindingKind.NULL_POINTER,
)  # fmt: skip
"""Findings that refuse a candidate only at the problem's own sizes, for which a kernel may be specialised."""
OF_SHARED_MEMORY = (
    FindingKind.SHARED_RACE, FindingKind.SHARED_UNINITIALISED_READ, FindingKind.ASYNC_COPY_NOT_WAITED,
    FindingKind.MISSING_PROXY_FENCE, FindingKind.PRODUCT_NOT_WAITED, FindingKind.MBARRIER_MISUSE,
    FindingKind.CLUSTER_BARRIER, FindingKind.CLUSTER_PEER_GONE,
)  # fmt: skip
"""Emulator findings that corroborate a race which compute-sanitizer reports without certainty."""
_DECLINED = ("sizes-declined", "defaults-changed")
"""Kinds of headline findings by which a candidate declines the shrunken sizes."""
_RAN, _DID_NOT_RUN = "the emulator finds none in it", "the emulator did not check it"
_REPEATED = "its kernels repeated without host code"
BUILT = "built by stock load_inline"
"""Progress message of the stock build's judge after its build, before it uses the GPU."""
NOTHING_SEEN = Finding(
    kind="nothing-seen", message="At small sizes nothing shows against it.", severity="note"
)
"""Headline of checks at small sizes that found no error; these checks alone verify nothing."""


class Look(NamedTuple):
    """Result of the cheap checks before the stock build."""

    status: Status | None
    """Status with which the candidate is refused, or None if it is not refused."""
    findings: tuple[Finding, ...]
    skipped: tuple[str, ...]
    doubt: tuple[str, ...] = ()
    """Skipped checks without which the candidate cannot be confirmed."""


def by_emulator(seen: Evaluation) -> Look:
    """Return the consequence of the emulator's verdict at small sizes for a candidate that a GPU verified.

    Running the kernels again without the candidate's host code is the second look's main check. Each kernel
    that the emulator could not run that way leaves a doubt.
    """
    if seen.status is Status.VERIFIED:
        doubt = tuple(f"{_REPEATED}: only the real sizes launch {name}" for name in seen.scope.unexercised)
        return Look(None, (), doubt, doubt)
    if seen.status is Status.REJECTED or _whatever_the_size(seen):
        return Look(seen.status, seen.findings, ())
    headline = seen.headline
    said = f"{headline.kind}: {headline.message}" if headline else str(seen.status)
    doubt = (f"{_REPEATED}: on the emulator it is {seen.status} ({said})",)
    if seen.status is Status.UNSUPPORTED or headline is None:
        return Look(None, (), doubt, doubt)
    sizes = "At smaller sizes" if seen.scope.shapes == "shrunken" else "At the problem's own sizes"
    message = f"{sizes}, on the emulator: {headline.message}"
    return Look(
        None, (headline.model_copy(update={"message": message, "severity": "warning"}),), doubt, doubt
    )


def _whatever_the_size(seen: Evaluation) -> bool:
    """Return True if the emulator found an error that cannot come from its smaller sizes."""
    found = [finding for finding in seen.findings if finding.severity != "note"]
    if any(finding.kind in NEVER for finding in found):
        return True
    same = seen.scope.shapes == "full" or faults.SOME_CALLS in seen.findings
    return same and any(finding.kind in OUT_OF_BOUNDS for finding in found)


def by_small_sizes(job: Job, scope: Scope, seen: Evaluation, announce: Announce) -> Evaluation:
    """Return the result of the cheap checks: the emulator's verdict `seen`, then the sanitizer.

    The result is *unsupported* with NOTHING_SEEN if they do not refuse the candidate.
    """
    looks = [by_emulator(seen)]
    if looks[0].status is None and not _has_decided(job, seen):
        assert job.shrunken is not None
        at = _at_its_own_sizes(job) if _may_need_its_own_sizes(job, seen) else job.shrunken
        looks.append(by_sanitizer(job, at, announce, seen))
    findings = sorted((f for look in looks for f in look.findings), key=lambda f: f.severity != "error")
    skipped = tuple(words for look in looks for words in look.skipped)
    look = Look(looks[-1].status, tuple(findings), skipped, looks[0].doubt)
    return _evaluation(look, scope, "integrity").model_copy(update={"admission": job.admission})


def _has_decided(job: Job, seen: Evaluation) -> bool:
    """Return True if compute-sanitizer would add nothing, as the emulator checked every kernel.

    The emulator's sanitizer is the stricter of the two, over more draws. Kernels that the emulator did not
    run at any size are left to compute-sanitizer.
    """
    return seen.status is Status.VERIFIED and not job.unchecked and not seen.scope.unexercised


def admits(looked: Evaluation) -> bool:
    """Return True if the cheap checks did not refuse the candidate, so that the stock build decides."""
    return looked.headline is not None and looked.headline.kind == NOTHING_SEEN.kind


def joined(looked: Evaluation, stock: Evaluation) -> Evaluation:
    """Return the verdict on the build by stock `load_inline`, with notes and gaps of the earlier checks."""
    notes = looked.findings[1:]
    verified = stock.status is Status.VERIFIED
    findings = (*notes, *stock.findings) if verified else (*stock.findings, *notes)
    skipped = tuple(dict.fromkeys((*stock.scope.skipped, *looked.scope.skipped)))
    scope = stock.scope.model_copy(update={"skipped": skipped, "doubt": looked.scope.doubt})
    return stock.model_copy(update={"findings": findings, "scope": scope})


def _may_need_its_own_sizes(job: Job, seen: Evaluation) -> bool:
    """Return True if a candidate that is right at the real sizes may go out of bounds at small ones."""
    assert job.shrunken is not None
    if seen.status is not Status.UNSUPPORTED:
        # A candidate that fails at some small sizes may pass at real ones, where other kernels may run.
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
    """Return compute-sanitizer's result on some calls at the sizes `at`.

    The sanitizer's warnings are uncertain races. They count as errors if the emulator's verdict `seen` has
    errors in the candidate's shared memory as well.
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
    """Return the scope's note about an uncertain race that was not counted as an error.

    `unexercised` names the kernels that the emulator did not run, or is None if it checked none.
    """
    kernel = race.location.kernel if race.location else None
    ran = unexercised is not None and not any(name.startswith(str(kernel)) for name in unexercised)
    return (
        f"races in shared memory: racecheck reports one in {kernel}, whose threads wait for {unfollowed.BY}, "
        f"which it does not always follow; not counted, {_RAN if ran else _DID_NOT_RUN}"
    )


def sanitized(job: Job, scope: Scope, announce: Announce) -> Evaluation:
    """Return compute-sanitizer's result at small sizes as an evaluation."""
    assert job.shrunken is not None
    return _evaluation(by_sanitizer(job, job.shrunken, announce), scope, "run")


def _evaluation(look: Look, scope: Scope, stage: Stage) -> Evaluation:
    skipped = (*scope.skipped, *look.skipped)
    scope = scope.model_copy(update={"skipped": skipped, "doubt": look.doubt})
    if look.status is None:
        findings = (NOTHING_SEEN, *look.findings)
        return Evaluation(status=Status.UNSUPPORTED, stage=stage, scope=scope, findings=findings)
    return Evaluation(status=look.status, stage=stage, scope=scope, findings=look.findings)


def with_counters(job: Job, verdict: Evaluation, announce: Announce) -> Evaluation:
    """Return the verdict with a recommendation based on NVIDIA's counters, if it has one to replace."""
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
