"""The judge: turns one candidate into one evaluation. Imports neither torch nor candidate code.

An executor starts it as `python -m agent.harness.judge.evaluate DESCRIPTOR` in an environment without
secrets. It answers one command, the job, with `{"evaluation": ...}`. The answer is `{"rebuilt": PROGRAM}` for
a program that the job lists as known, and `{"fault": {"exit": ..., ...}}` if nothing could be judged here.

Before the answer, it reports its progress. On a GPU it also sends the verdict early, in a request `decided`.
The later search for a cause and the robustness probes may then fail without losing the verdict.
"""

import contextlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from agent import config, sandbox, screen
from agent.emulator.replay import operators
from agent.errors import AgentError, EnvironmentFault, PassingFault, Rebuilt, defect
from agent.harness.admission import robustness
from agent.harness.backends import gpu_lock, gpu_memory
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

Decided = Callable[[Evaluation], None]
"""Function that receives a verdict before the cause of a failure is searched for."""
UNCONFIRMED = (
    "compute-sanitizer, its kernels repeated without host code, a second build by stock load_inline: for a "
    "new best only"
)
UNCHECKED = (
    "the sanitizer (--unchecked): accesses out of bounds, races, uninitialised reads, unwritten outputs, "
    "launches on the default stream"
)


def evaluate(job: Job, announce: Announce, decided: Decided = lambda verdict: None) -> Evaluation:
    """Return the verdict on the job's candidate. Raises AgentError if it could not be judged.

    On a GPU, `decided` receives a verified or incorrect verdict before later steps such as the search for a
    cause.
    """
    level = sandbox.strongest(gpu=job.executor == "cuda")
    skipped = (*_skipped(job), *level.gaps)
    scope = Scope(
        executor=job.executor, isolation=level.name, protocol=job.protocol, requested=job.requests,
        skipped=skipped,
    )  # fmt: skip
    permits = partial(operators.allowed, setting=job.library_ops)
    warnings = screen.check(job.problem.source, job.candidate, permits) if job.screened else ()
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
            return _in_stock_build(job, at, warnings, announce, decided)
        return _tried(job, at, warnings, announce, decided).evaluation
    return _on_emulator(job, scope, warnings, announce)


def _on_emulator(job: Job, scope: Scope, warnings: tuple[Finding, ...], announce: Announce) -> Evaluation:
    """Judge at sizes that the emulator can afford, and at further sizes if those are not conclusive."""

    def tried(job: Job, at: Shapes, warnings: tuple[Finding, ...]) -> Tried:
        return _tried(*shrunken_sizes.with_fewer_draws(job, at), warnings, announce)

    return shrunken_sizes.judged(job, scope, warnings, announce, tried)


def _in_stock_build(
    job: Job, at: Shapes, warnings: tuple[Finding, ...], announce: Announce, decided: Decided
) -> Evaluation:
    """Return the verdict on a verified candidate in a build by stock `load_inline`, as users will have."""
    stock = job.model_copy(update={"build": "load_inline"})
    found = _tried(stock, at, warnings, announce, decided).evaluation
    return confirmation.with_counters(job, found, announce)


def _located(job: Job, at: Shapes, warnings: tuple[Finding, ...], announce: Announce) -> Evaluation:
    """Return an evaluation at small sizes that may locate a kernel's fault on a GPU; it is not a verdict."""
    return fault_localization.looked_for(
        str(job.locates),
        lambda: _emulated(job, at, announce),
        lambda: confirmation.sanitized(job, at.scope, announce),
    )


def _emulated(job: Job, at: Shapes, announce: Announce) -> Evaluation:
    """Return the emulator's verdict, at small sizes, on a candidate for a GPU."""
    # The GPU's own trial judges the optional checks and probes the envelope.
    less = {"executor": "emulator", "confirms": None, "requests": (), "envelope_limit_s": 0.0}
    if job.locates == "timeout":
        less["candidate_timeout_s"] = min(call_limits.LOCATING_S, job.candidate_timeout_s)
    scope = at.scope.model_copy(update={"executor": "emulator"})
    return _on_emulator(job.model_copy(update=less), scope, (), announce)


def _tried(
    job: Job, at: Shapes, warnings: tuple[Finding, ...], announce: Announce,
    decided: Decided = lambda verdict: None,
) -> Tried:  # fmt: skip
    """Run one trial; on a GPU, reserve memory for it first."""
    announce = progress.as_progress(announce)
    on_gpu = job.executor == "cuda"
    place = gpu_lock.place_of(Path(job.cache_dir), config.child_environment()) if on_gpu else None
    room = gpu_memory.Room(place, at.trace, announce, job.begun_ns)

    def judge() -> Tried:
        roomy = job.model_copy(update={"has_whole_gpu": room.is_whole})
        return _Judging(roomy, at, warnings, announce, decided, room).tried()

    return gpu_memory.tried(room, judge, announce)


class _Judging:
    """One trial from its build to its evaluation, and its results so far."""

    def __init__(
        self, job: Job, at: Shapes, warnings: tuple[Finding, ...], announce: progress.Progress,
        decided: Decided, room: gpu_memory.Room,
    ) -> None:  # fmt: skip
        self._job, self._at, self._warnings = job, at, warnings
        self._announce, self._decided, self._room = announce, decided, room
        self._status, self._scope = Status.VERIFIED, at.scope
        self._stage: Stage = "verify"
        self._refusal: tuple[Finding, ...] = ()
        self._left_out: tuple[str, ...] = ()
        self._reached = Coverage()
        self._measurement: Measurement | None = None
        self._profile: Profile | None = None
        self._envelope: Envelope | None = None

    def tried(self) -> Tried:
        job, at = self._job, self._at
        backend = backend_for(job, self._announce)
        kind = GpuTrial if job.executor == "cuda" else Trial
        with (
            contextlib.ExitStack() as memory,  # released last, when no process of the trial is left
            workspace(job.candidate, at.trace, backend) as folder,
            kind(job, at.source, at.trace, folder=folder, backend=backend) as trial,
        ):
            try:
                self._announce("building")
                trial.load(ahead=job.executor == "cuda" and self._room.is_small)
                trial.environment()  # asked early, as the oracle may have ended later
                _require_new(job, backend, self._announce)
                memory.enter_context(self._room.held())
                self._judge(trial)
                if isinstance(trial, GpuTrial):
                    trial.end()  # checks that the GPU still works, which a verdict presupposes
                    self._decided(self._verdict(trial, backend))
                if job.protocol in ("full", "reduced") and not job.confirms:
                    self._envelope = _beside(job, at, folder, backend, trial, self._announce)
            except Refused as refused:
                self._status, self._stage, self._refusal = refused.status, refused.stage, refused.findings
                if refused.status is Status.INCORRECT and isinstance(trial, GpuTrial):
                    self._decided(self._verdict(trial, backend))
                self._refusal = trial.explained(self._refusal, self._announce)
            trial.end()
            real, kinds = at._replace(scope=self._scope), [finding.kind for finding in self._refusal[:1]]
            if kinds and shrunken_sizes.wanted(job, real, self._status, kinds[0]):
                self._reached = _from_outside(job, at, backend, trial)
            return Tried(self._verdict(trial, backend), trial.ran, self._reached)

    def _judge(self, trial: Trial) -> None:
        """Verify the candidate and, on a GPU, time it. Raises Refused."""
        job, at, announce = self._job, self._at, self._announce
        trial.verify(announce)
        with trial.using():
            asked = optional_checks.judge(job, trial.candidate, trial.oracle, announce)
        self._left_out = (*asked, *_held(job, trial, announce))
        if shrunken_sizes.wanted(job, at, self._status):
            self._reached = trial.cover(announce)
            self._scope = shrunken_sizes.at_real_shape(at.scope)
            addresses = trial.check_addresses(job.problem.trace, announce)
            self._left_out += (*self._reached.left_out, *addresses)
            self._scope = at.scope
        if isinstance(trial, GpuTrial):
            self._stage, self._measurement, self._profile = _timed(job, trial, announce)

    def _verdict(self, trial: Trial, backend: Backend) -> Evaluation:
        """Return the evaluation with all results so far."""
        return Evaluation(
            status=self._status,
            stage=self._stage,
            scope=_covered(self._scope, trial, (*backend.unchecked(), *self._left_out)),
            findings=(*self._refusal, *self._warnings, *trial.findings),
            build=trial.build,
            correctness=trial.correctness if self._status is Status.VERIFIED else None,
            mismatch=trial.mismatch if self._status is Status.INCORRECT else None,
            measurement=self._measurement,
            profile=self._profile,
            environment=trial.environment(),
            admission=self._job.admission,
            envelope=self._envelope,
        )


def _held(job: Job, trial: Trial, announce: Announce) -> tuple[str, ...]:
    """Check on the emulator that outputs of many calls share no memory; return notes on skipped checks."""
    if job.executor != "emulator":
        return ()
    announce("holding the outputs of many calls")
    return trial.reuse.check_host()


def _require_new(job: Job, backend: Backend, announce: Announce) -> None:
    """Raise Rebuilt if the build is a program that was judged before.

    The stock build's judge announces that it has built, and may be held there until the cheap checks end.
    """
    made = backend.built() if job.known else None
    if made is not None and made.program in job.known:
        raise Rebuilt(made.program)
    if job.confirms == "stock":
        announce(confirmation.BUILT)


def _timed(job: Job, trial: GpuTrial, announce: Announce) -> tuple[Stage, Measurement | None, Profile | None]:
    """Time the candidate with the GPU to itself and profile one call. Raises Refused."""
    if not job.measure:
        with trial.using():
            return "verify", None, trial.watch(announce)
    announce("preparing the baselines")
    with trial.using():
        names = trial.prepare_timing()
    with trial.alone_on_gpu():
        times = trial.time(names, announce)
        profile = trial.watch(announce)
        alone = trial.baselines_alone(times)
    return "measure", trial.measured(times, alone, profile), profile


def _from_outside(job: Job, at: Shapes, backend: Backend, trial: Trial) -> Coverage:
    """Return the kernels that the real sizes launch, from a new process after the first one failed."""
    with (
        workspace(job.candidate, at.trace, backend) as folder,
        CandidateProcess(job, at.trace, folder) as process,
    ):
        return kernel_coverage.of_subject(job.problem, job.candidate.source, process, trial.oracle.trace_of)


def _beside(
    job: Job, at: Shapes, folder: Path, backend: Backend, trial: Trial, announce: Announce
) -> Envelope:
    """Check in a second process that builds are deterministic, then run the robustness probes.

    Raises Refused only if the builds differ.
    """
    with contextlib.ExitStack() as stack:
        if not isinstance(trial, GpuTrial):  # on a GPU, reuse the folder with stock `load_inline`'s builds
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
        return robustness.probed(trial.bounded(), at.trace, process, trial.oracle, trial.using)


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
    """Unwind the stack on SIGTERM, so that every child is killed and every folder removed."""

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

    def decided(verdict: Evaluation) -> None:
        say({"request": "decided", "evaluation": verdict.model_dump(mode="json")})
        sys.stdin.readline()

    sandbox.hide()
    # The candidate runs as another user and has to read files of this process and of the oracle.
    os.umask(0o022)
    with _ended_by_sigterm():
        job = Job.model_validate_json(sys.stdin.readline())
        try:
            say({"evaluation": evaluate(job, announce, decided).model_dump(mode="json")})
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
