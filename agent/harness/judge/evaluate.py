"""The judge: one candidate in, one evaluation out. Imports neither torch nor candidate code.

Started as `python -m agent.harness.judge.evaluate DESCRIPTOR` by an executor, in an environment without
secrets. It answers one command, the job, with `{"evaluation": ...}`; for a program that the job says is known
with `{"rebuilt": PROGRAM}`; when nothing could be judged here, with `{"fault": {"exit": ..., ...}}`.
On the way it reports progress.
"""

import contextlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

from agent import sandbox, screen
from agent.errors import AgentError, EnvironmentFault, PassingFault, Rebuilt, defect
from agent.harness.admission import robustness
from agent.harness.backends.backend import Backend
from agent.harness.backends.candidate_process import CandidateProcess
from agent.harness.backends.selection import backend_for
from agent.harness.backends.workspace import workspace
from agent.harness.confirmation import build_determinism, confirmation, fault_localization
from agent.harness.judge import shrunken_sizes
from agent.harness.judge.shrunken_sizes import Shapes, Tried
from agent.harness.task import call_limits, progress
from agent.harness.task.faults import Refused
from agent.harness.task.job import Announce, Job
from agent.harness.trial import kernel_coverage, optional_checks
from agent.harness.trial.gpu_trial import GpuTrial
from agent.harness.trial.kernel_coverage import Coverage
from agent.harness.trial.trial import Trial
from agent.records import (
    Envelope,
    Evaluation,
    Finding,
    Measurement,
    Profile,
    Scope,
    Stage,
    Status,
)

UNCONFIRMED = (
    "compute-sanitizer, its kernels repeated without host code, a second build by stock load_inline: for a "
    "new best only"
)
UNCHECKED = (
    "the sanitizer (--unchecked): accesses out of bounds, races, uninitialised reads, unwritten outputs, "
    "launches on the default stream"
)


def evaluate(job: Job, announce: Announce) -> Evaluation:
    """The verdict. Raises AgentError for what is not the candidate's fault."""
    level = sandbox.strongest(gpu=job.executor == "cuda")
    skipped = (*_skipped(job), *level.gaps)
    scope = Scope(
        executor=job.executor, isolation=level.name, protocol=job.protocol, requested=job.requests,
        skipped=skipped,
    )  # fmt: skip
    warnings = screen.check(job.problem.source, job.candidate) if job.screened else ()
    errors = tuple(finding for finding in warnings if finding.severity == "error")
    if errors:
        return Evaluation(status=Status.REJECTED, stage="screen", scope=scope, findings=errors)
    if job.executor == "cuda":
        at = Shapes(job.problem.source, job.problem.trace, scope)
        if job.locates:
            return _located(job, at, warnings, announce)
        if job.confirms == "cheap":
            return confirmation.by_small_sizes(job, at.scope, _emulated(job, at, announce), announce)
        if job.confirms == "stock":
            return _in_stock_build(job, at, warnings, announce)
        return _tried(job, at, warnings, announce).evaluation
    return _on_emulator(job, scope, warnings, announce)


def _on_emulator(job: Job, scope: Scope, warnings: tuple[Finding, ...], announce: Announce) -> Evaluation:
    """Judges at sizes the emulator can afford, and at others where those would not do."""

    def tried(job: Job, at: Shapes, warnings: tuple[Finding, ...]) -> Tried:
        return _tried(*shrunken_sizes.with_fewer_draws(job, at), warnings, announce)

    return shrunken_sizes.judged(job, scope, warnings, announce, tried)


def _in_stock_build(job: Job, at: Shapes, warnings: tuple[Finding, ...], announce: Announce) -> Evaluation:
    """The verdict on a candidate that was verified before, as users will build it."""
    stock = job.model_copy(update={"build": "load_inline"})
    return confirmation.with_counters(job, _tried(stock, at, warnings, announce).evaluation, announce)


def _located(job: Job, at: Shapes, warnings: tuple[Finding, ...], announce: Announce) -> Evaluation:
    """Where a kernel fails that fell on a GPU: no verdict, but what shows at small sizes."""
    return fault_localization.looked_for(
        str(job.locates),
        lambda: _emulated(job, at, announce),
        lambda: confirmation.sanitized(job, at.scope, announce),
    )


def _emulated(job: Job, at: Shapes, announce: Announce) -> Evaluation:
    """The emulator's verdict, at small sizes, on a candidate for a GPU."""
    # What was asked for beside the protocol is judged, and the envelope probed, in the GPU's own trial.
    less = {"executor": "emulator", "confirms": None, "requests": (), "envelope_limit_s": 0.0}
    if job.locates == "timeout":
        less["candidate_timeout_s"] = min(call_limits.LOCATING_S, job.candidate_timeout_s)
    scope = at.scope.model_copy(update={"executor": "emulator"})
    return _on_emulator(job.model_copy(update=less), scope, (), announce)


def _tried(job: Job, at: Shapes, warnings: tuple[Finding, ...], announce: Announce) -> Tried:
    backend = backend_for(job, announce := progress.of(announce))
    kind = GpuTrial if job.executor == "cuda" else Trial
    with (
        contextlib.ExitStack() as gpu_lock,  # let go last, when no process of the candidate's is left
        workspace(job.candidate, at.trace, backend) as folder,
        kind(job, at.source, at.trace, folder=folder, backend=backend) as trial,
    ):
        status, scope = Status.VERIFIED, at.scope
        stage: Stage = "verify"
        refusal: tuple[Finding, ...] = ()
        left_out, reached = tuple[str, ...](), Coverage()
        measurement = profile = handled = None
        try:
            announce("building")
            trial.load()
            trial.environment()  # what the oracle cannot tell now it never will
            gpu_lock.enter_context(_turn(job, backend, announce))
            trial.verify(announce)
            asked = optional_checks.judge(job, trial.candidate, trial.oracle, announce)
            left_out = (*asked, *_held(job, trial, announce))
            if shrunken_sizes.wanted(job, at, status):
                reached = trial.cover(announce)
                scope = shrunken_sizes.at_real_shape(at.scope)
                left_out += (*reached.left_out, *trial.check_addresses(job.problem.trace, announce))
                scope = at.scope
            if isinstance(trial, GpuTrial):
                stage, measurement, profile = _timed(job, trial, announce)
            if job.protocol in ("full", "reduced") and not job.confirms:
                handled = _beside(job, at, folder, backend, trial, announce)
        except Refused as refused:
            status, stage, refusal = refused.status, refused.stage, refused.findings
        trial.end()
        if refusal and shrunken_sizes.wanted(job, at._replace(scope=scope), status, refusal[0].kind):
            reached = _from_outside(job, at, backend, trial)
        verdict = Evaluation(
            status=status,
            stage=stage,
            scope=_covered(scope, trial, (*backend.unchecked(), *left_out)),
            findings=(*refusal, *warnings, *trial.findings),
            build=trial.build,
            correctness=trial.correctness if status is Status.VERIFIED else None,
            mismatch=trial.mismatch if status is Status.INCORRECT else None,
            measurement=measurement,
            profile=profile,
            environment=trial.environment(),
            admission=job.admission,
            envelope=handled,
        )
        return Tried(verdict, trial.ran, reached)


def _held(job: Job, trial: Trial, announce: Announce) -> tuple[str, ...]:
    """Looks for outputs in one memory, where host code can run alone; what was left out."""
    if job.executor != "emulator":
        return ()
    announce("holding the outputs of many calls")
    return trial.reuse.check_host()


def _turn(job: Job, backend: Backend, announce: Announce) -> contextlib.AbstractContextManager[None]:
    """The turn on the GPU; who confirms may let the build wait for it until other looks are done.

    Raises Rebuilt where what was built is a program that was judged before.
    """
    made = backend.built() if job.known else None
    if made is not None and made.program in job.known:
        raise Rebuilt(made.program)
    if job.confirms == "stock":
        announce(confirmation.BUILT)
    return backend.gpu_lock.held()


def _timed(job: Job, trial: GpuTrial, announce: Announce) -> tuple[Stage, Measurement | None, Profile | None]:
    times = trial.time(announce) if job.measure else None
    profile = trial.watch(announce)
    if times is None:
        return "verify", None, profile
    return "measure", trial.measured(times, profile, trial.environment().gpu), profile


def _from_outside(job: Job, at: Shapes, backend: Backend, trial: Trial) -> Coverage:
    """What the real sizes launch, by a process of the candidate's other than that which failed."""
    with (
        workspace(job.candidate, at.trace, backend) as folder,
        CandidateProcess(job, at.trace, folder) as process,
    ):
        return kernel_coverage.of_subject(job.problem, job.candidate.source, process, trial.oracle.trace_of)


def _beside(
    job: Job, at: Shapes, folder: Path, backend: Backend, trial: Trial, announce: Announce
) -> Envelope:
    """What takes another process: whether it builds the same, and what it handles beyond what is stated.

    Raises Refused for the former alone.
    """
    with contextlib.ExitStack() as stack:
        if isinstance(trial, GpuTrial):
            # The next process finds in `folder` what stock `load_inline` built there.
            trial.end()
        else:
            folder = stack.enter_context(workspace(job.candidate, at.trace, backend))
        process = stack.enter_context(CandidateProcess(job, at.trace, folder))
        if not isinstance(trial, GpuTrial):
            announce("loading the file a second time")
            build_determinism.check(process, trial.asked)
            if trial.asked_later:
                everything = (*trial.asked, *trial.asked_later)
                limit_s = trial.limits.call.seconds
                build_determinism.check_later(process, everything, trial.oracle, limit_s)
        announce("probing what else it handles")
        return robustness.probed(trial.bounded(), at.trace, process, trial.oracle)


def _covered(scope: Scope, trial: Trial, left_out: tuple[str, ...]) -> Scope:
    scope = shrunken_sizes.skipping(scope, *trial.skipped(), *left_out)
    return scope.model_copy(update={"parameters": trial.names})


def _skipped(job: Job) -> tuple[str, ...]:
    later = []
    if not job.screened:
        later.append("screen")
    if job.executor == "emulator":
        unchecked = [UNCHECKED] if job.unchecked else []
        return (*later, *unchecked, "timing: an emulator has none")
    return (*later, *(() if job.confirms else (UNCONFIRMED,)))


@contextlib.contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """SIGTERM unwinds the stack, so that every child is killed and every folder removed."""

    def leave(*_: object) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, leave)
    yield


def main(argv: list[str]) -> None:
    answers = int(argv[-1])

    def say(message: dict[str, object]) -> None:
        os.write(answers, json.dumps(message).encode() + b"\n")

    def announce(what: str) -> None:
        say({"request": "progress", "what": what})
        sys.stdin.readline()

    sandbox.hide()
    # The candidate runs as another user and has to read what this process and the oracle write for it.
    os.umask(0o022)
    with _ended_by_sigterm():
        job = Job.model_validate_json(sys.stdin.readline())
        try:
            say({"evaluation": evaluate(job, announce).model_dump(mode="json")})
        except Rebuilt as known:
            say({"rebuilt": known.program})
        except AgentError as fault:
            details = fault.details if isinstance(fault, EnvironmentFault) else ""
            passing = isinstance(fault, PassingFault)
            told = {"exit": fault.exit_code, "message": str(fault), "details": details, "passing": passing}
            say({"fault": told})
        except Exception as error:  # noqa: BLE001 - whatever raises here is ours, and no verdict
            ours = defect("the judge", f"{type(error).__name__}: {error}", traceback.format_exc()[-8_000:])
            say({"fault": {"exit": ours.exit_code, "message": str(ours), "details": ours.details}})


if __name__ == "__main__":
    main(sys.argv)
