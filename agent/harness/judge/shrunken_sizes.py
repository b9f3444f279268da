"""Judging on the emulator at sizes that it can afford, and at further sizes if those are not conclusive.

Small sizes may be not conclusive for two reasons. First, a candidate may hold real sizes as literals, or its
host code may decline small sizes, so it fails there without being wrong. It is then judged at the real sizes,
or at sizes at which its host code runs, or it is `unsupported`. Second, a candidate may launch kernels at the
real sizes that it does not launch at the small ones. It is then judged once more, with fewer draws, at sizes
that make these kernels run. The scope names kernels that ran at no judged sizes.
"""

from collections.abc import Callable
from typing import NamedTuple

from agent import problems
from agent.diagnosis.runtime import python_errors
from agent.errors import EnvironmentFault, ProblemError
from agent.harness.task.job import Announce, Job
from agent.harness.trial import kernel_coverage
from agent.harness.trial.kernel_coverage import Coverage
from agent.problems import Shrunken, affordable
from agent.records import Correctness, Evaluation, Finding, Location, Scope, Status, Trace

_NOT_CONCLUSIVE = (Status.INCORRECT, Status.RUNTIME_ERROR, Status.TIMEOUT)
"""Statuses of failures that prove nothing at sizes for which the candidate may not be written."""


class Shapes(NamedTuple):
    """Reference at the judged sizes, and the scope that states these sizes."""

    source: str
    trace: Trace
    scope: Scope


class Tried(NamedTuple):
    """Result of a trial, with the real sizes' kernels that it did not launch (`coverage`)."""

    evaluation: Evaluation
    ran: tuple[str, ...] = ()
    """Signatures of the kernels that the trial's draws launched."""
    coverage: Coverage = Coverage()


Try = Callable[[Job, Shapes, tuple[Finding, ...]], Tried]


def judged(
    job: Job, scope: Scope, warnings: tuple[Finding, ...], announce: Announce, tried: Try
) -> Evaluation:
    """Return the verdict at the job's shrunken sizes, or at further sizes if those are not conclusive."""
    shrunk = job.shrunken
    if shrunk is None:
        raise EnvironmentFault("a job for the emulator carries the sizes to judge at")
    if not shrunk.fits:
        return _unsupported(scope, _too_large(shrunk.trace))

    def further(plan: Shrunken) -> Tried | None:
        return _further(job, plan, scope, announce, tried)

    at = _shapes(shrunk, scope)
    first = tried(job, at, warnings)
    result = first.evaluation
    if result.scope.shapes == "full":
        return result
    if result.status is Status.VERIFIED:
        return _at_large_sizes(job, _with_the_rest(job, first, further), scope, announce, tried)
    literals = _not_conclusive(job, result, shrunk)
    declined = _declines(job, first)
    if not literals and result.status in _NOT_CONCLUSIVE and shrunk.hands_over_defaults:
        return _unsupported(at.scope, _handed_over(shrunk), result)
    if not literals and not declined:
        return result
    why = _hard_coded(literals) if literals else _made_for_others(result)
    if result.status is Status.TIMEOUT:
        # A hang is not run again: at the real sizes it would take even longer.
        return _unsupported(at.scope, why, result)
    if affordable(job.problem.trace):
        real = Shapes(job.problem.source, job.problem.trace, at_real_shape(scope))
        return tried(job, real, warnings).evaluation
    for plan in first.coverage.plans[:1]:
        announce(f"judging at {_words(plan)}: it may not be made for the other sizes")
        second = tried(job, _shapes(plan, scope), warnings)
        if second.evaluation.status is Status.VERIFIED:
            result = _with_the_rest(job, second, further)
            return _at_large_sizes(job, result, scope, announce, tried)
        if not _not_conclusive(job, second.evaluation, plan):
            return second.evaluation
    return _unsupported(at.scope, why, result)


def with_fewer_draws(job: Job, at: Shapes) -> tuple[Job, Shapes]:
    """Return job and shapes, with the protocol `reduced` if a draw is slow on the emulator."""
    if job.executor != "emulator" or job.protocol != "full" or not problems.few_draws(at.trace):
        return job, at
    fewer = {"protocol": "reduced"}
    return job.model_copy(update=fewer), at._replace(scope=at.scope.model_copy(update=fewer))


def wanted(job: Job, at: Shapes, status: Status, headline: str | None = None) -> bool:
    """Return True if the kernels that the real sizes launch should be looked up after a trial.

    `status` is the trial's, and `headline` the kind of its headline finding, if any.
    """
    if at.scope.shapes == "full" or job.protocol in ("further", "large") or job.shrunken is None:
        return False
    if status is Status.VERIFIED:
        return True
    if at.source != job.shrunken.source:
        return False
    if status not in (Status.INCORRECT, Status.RUNTIME_ERROR) or affordable(job.problem.trace):
        return False
    return headline in python_errors.OF_CALLS or bool(problems.hard_coded(job.candidate.source, job.shrunken))


def _with_the_rest(job: Job, first: Tried, tried: Callable[[Shrunken], Tried | None]) -> Evaluation:
    """Return the first verdict, combined with trials at sizes that launch more of the candidate's kernels."""
    result, ran = first.evaluation, set(first.ran)
    for plan in first.coverage.plans:
        second = tried(plan)
        if second is None:
            continue
        verdict = second.evaluation
        if verdict.status is Status.TIMEOUT:
            note = f"kernels of the real shape: at {_words(plan)} a call took longer than its limit"
            result = result.model_copy(update={"scope": skipping(result.scope, note)})
        elif verdict.status is not Status.VERIFIED:
            literals = _not_conclusive(job, verdict, plan)
            return _unsupported(verdict.scope, _hard_coded(literals), verdict) if literals else verdict
        else:
            result = _joined(result, verdict)
            ran |= set(second.ran)
    return _excepting(result, [kernel for kernel in first.coverage.missing if kernel not in ran])


def _at_large_sizes(job: Job, result: Evaluation, scope: Scope, announce: Announce, tried: Try) -> Evaluation:
    """Return the verdict after one or two more draws at the real sizes, or at the largest affordable ones.

    Some faults show at no small size: elements that are skipped in large tensors only, or counters and
    buffers of partial results that overflow.
    """
    if result.status is not Status.VERIFIED or job.protocol not in ("full", "reduced"):
        return result
    large = job.shrunken.large if job.shrunken else None
    if problems.once(job.problem.trace):
        announce("judging one call at the real sizes")
        protocol, at = "once", Shapes(job.problem.source, job.problem.trace, at_real_shape(scope))
        sizes = {name: (full, full) for name, (full, _) in result.scope.sizes.items()}
        where = "the problem's own sizes"
    elif large is not None:
        announce(f"judging at {_words(large)}, the largest sizes that are affordable")
        protocol, at, sizes = "large", _shapes(large, scope), large.changed
        where = f"larger sizes ({_words(large)})"
    else:
        return result
    less = {"protocol": protocol, "requests": (), "envelope_limit_s": 0.0}
    verdict = tried(job.model_copy(update=less), at, ()).evaluation
    is_open = protocol == "large" and large is not None and _not_conclusive(job, verdict, large)
    if is_open or verdict.status in (Status.TIMEOUT, Status.UNSUPPORTED):
        note = f"values at {where}: {verdict.findings[0].message[:200]}"
        return result.model_copy(update={"scope": skipping(result.scope, note)})
    if verdict.status is not Status.VERIFIED:
        first, *rest = verdict.findings
        headline = first.model_copy(update={"message": f"At {where} alone: {first.message}"})
        return verdict.model_copy(update={"findings": (headline, *rest)})
    return _joined(result, verdict.model_copy(update={"scope": scope.model_copy(update={"sizes": sizes})}))


def _further(job: Job, plan: Shrunken, scope: Scope, announce: Announce, tried: Try) -> Tried | None:
    """Try a verified candidate at the sizes of `plan`. Return None if the reference fails at them."""
    announce(f"judging at {_words(plan)}, where kernels of the real sizes run")
    less = {"protocol": "further", "requests": (), "envelope_limit_s": 0.0}
    try:
        return tried(job.model_copy(update=less), _shapes(plan, scope), ())
    except ProblemError:
        return None


def _joined(result: Evaluation, further: Evaluation) -> Evaluation:
    """Return the verdict `result`, with the draws and sizes of `further` added."""
    scope = result.scope
    scope = scope.model_copy(update={"further": (*scope.further, further.scope.sizes)})
    numbers = _worse(result.correctness, further.correctness)
    findings = tuple(dict.fromkeys((*result.findings, *further.findings)))
    return result.model_copy(update={"scope": scope, "correctness": numbers, "findings": findings})


def _worse(one: Correctness | None, other: Correctness | None) -> Correctness | None:
    if one is None or other is None:
        return one or other
    worst = {
        name: max((v for v in (value, getattr(other, name)) if v is not None), default=None)
        for name, value in one.model_dump().items()
    }
    return Correctness(**worst | {"draws": one.draws + other.draws})


def _excepting(result: Evaluation, missing: list[str]) -> Evaluation:
    if not missing or result.status is not Status.VERIFIED:
        return result
    names = tuple(dict.fromkeys(map(kernel_coverage.short, missing)))
    return result.model_copy(update={"scope": result.scope.model_copy(update={"unexercised": names})})


def skipping(scope: Scope, *checks: str) -> Scope:
    """Return the scope with `checks` added to the skipped checks."""
    return scope.model_copy(update={"skipped": (*scope.skipped, *checks)})


def _not_conclusive(job: Job, result: Evaluation, at: Shrunken) -> tuple[tuple[int, int], ...]:
    """Return the literals, as value and line, that make a failure at the sizes `at` inconclusive, if any."""
    if result.status not in _NOT_CONCLUSIVE:
        return ()
    return problems.hard_coded(job.candidate.source, at)


def _declines(job: Job, first: Tried) -> bool:
    """Return True if the host code raised at the trial's sizes but may run at the real sizes."""
    result = first.evaluation
    raised = result.status is Status.RUNTIME_ERROR and result.findings[0].kind in python_errors.OF_CALLS
    return raised and (bool(first.coverage.missing) or affordable(job.problem.trace))


def _shapes(at: Shrunken, scope: Scope) -> Shapes:
    if not at.full:
        sizes = {"shapes": "shrunken", "sizes": at.changed, "modulus": at.modulus}
        scope = skipping(scope, *(f"not at these sizes: {what}" for what in at.lost)).model_copy(update=sizes)
    return Shapes(at.source, at.trace, scope)


def _words(plan: Shrunken) -> str:
    return ", ".join(f"{name} {real}->{used}" for name, (real, used) in plan.changed.items())


def at_real_shape(scope: Scope) -> Scope:
    return scope.model_copy(update={"shapes": "full", "sizes": {}, "modulus": None})


def _unsupported(scope: Scope, reason: Finding, tried: Evaluation | None = None) -> Evaluation:
    seen = tuple(f.model_copy(update={"severity": "note"}) for f in tried.findings) if tried else ()
    return Evaluation(
        status=Status.UNSUPPORTED, stage="verify", scope=scope, findings=(reason, *seen),
        build=tried.build if tried else None, environment=tried.environment if tried else None,
    )  # fmt: skip


def _too_large(trace: Trace) -> Finding:
    return Finding(
        kind="too-large",
        message=f"The reference takes {trace.flops:.3g} operations on {trace.min_bytes >> 20} MB, and no "
        "smaller sizes of it were found that the emulator can afford; judge it on a GPU.",
    )


def _hard_coded(literals: tuple[tuple[int, int], ...]) -> Finding:
    value, line = literals[0]
    return Finding(
        kind="hard-coded-size",
        message=f"The candidate holds {value}, a size of the reference, as a literal: its failure at smaller "
        "sizes proves nothing, and the real size is too large for the emulator. Read sizes from the tensors "
        f"(and choose block sizes other than {value}), or judge it on a GPU.",
        location=Location(line=line),
        count=len(literals),
    )


def _made_for_others(result: Evaluation) -> Finding:
    raised = result.findings[0]
    return Finding(
        kind="sizes-declined",
        message="The host code takes the problem's own sizes and raises at the smaller ones that the "
        f"emulator can afford, which proves nothing: {raised.message[:300]} No sizes were found that "
        "suit both: take other sizes as well, as multiples of smaller blocks or with a tail, or judge "
        "it on a GPU.",
        location=raised.location,
    )


def _handed_over(shrunk: Shrunken) -> Finding:
    names = ", ".join(name for name in shrunk.changed if name.startswith("Model("))
    return Finding(
        kind="defaults-changed",
        message=f"To be affordable, {names} was given in place of its default, which a right candidate may "
        "have written in: its failure proves nothing. Judge it on a GPU.",
    )
