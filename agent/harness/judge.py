"""The judge: one candidate in, one evaluation out. Imports neither torch nor candidate code.

Started as `python -m agent.harness.judge DESCRIPTOR` by an executor, in an environment without secrets.
It answers one command, the job, with `{"evaluation": ...}` or, when nothing could be judged here,
`{"fault": {"exit": ..., "message": ...}}`; on the way it reports progress.
"""

import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from agent import problems, sandbox, screen
from agent.diagnosis import slow
from agent.errors import AgentError, EnvironmentFault
from agent.harness import clock, confirmation, envelope, locating, requests, second_pass
from agent.harness.faults import Refused
from agent.harness.gpu_trial import GpuTrial
from agent.harness.job import Announce, Job, affordable
from agent.harness.lane import Lane
from agent.harness.lanes import lane_for
from agent.harness.subject import Subject
from agent.harness.trial import Trial
from agent.harness.workspace import workspace
from agent.records import (
    Envelope,
    Evaluation,
    Finding,
    Location,
    Measurement,
    Profile,
    Scope,
    Stage,
    Status,
    Trace,
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
        judged = _located if job.locates else _confirmed if job.confirms else _tried
        return judged(job, at, warnings, announce)
    return _on_emulator(job, scope, warnings, announce)


class Shapes(NamedTuple):
    """The reference at the sizes it is judged at, and the scope that says so."""

    source: str
    trace: Trace
    scope: Scope


def _on_emulator(job: Job, scope: Scope, warnings: tuple[Finding, ...], announce: Announce) -> Evaluation:
    """Judges at sizes the emulator can afford, and at the real ones where shrunken evidence would not do."""
    shrunk = job.shrunken
    if shrunk is None:
        raise EnvironmentFault("a job for the emulator carries the sizes to judge at")
    if shrunk.full and not affordable(shrunk.trace):
        return _unsupported(scope, _too_large(shrunk.trace))
    if not shrunk.full:
        scope = scope.model_copy(update={"shapes": "shrunken", "sizes": _changed(shrunk)})
    result = _tried(job, Shapes(shrunk.source, shrunk.trace, scope), warnings, announce)
    inconclusive = result.status in (Status.INCORRECT, Status.RUNTIME_ERROR, Status.TIMEOUT)
    if result.scope.shapes == "full" or not inconclusive:
        return result
    literals = problems.hard_coded(job.candidate.source, shrunk)
    if not literals:
        return result
    if affordable(job.problem.trace):
        real = Shapes(job.problem.source, job.problem.trace, _at_real_shape(scope))
        return _tried(job, real, warnings, announce)
    return _unsupported(scope, _hard_coded(literals), result)


def _confirmed(job: Job, at: Shapes, warnings: tuple[Finding, ...], announce: Announce) -> Evaluation:
    """The verdict on a candidate that was verified before and would be the best."""
    looks = [confirmation.by_emulator(_emulated(job, at, announce))]
    if looks[0].status is None:
        looks.append(confirmation.by_sanitizer(job, announce))
    found = tuple(finding for look in looks for finding in look.findings)
    if looks[-1].status is not None:
        return Evaluation(
            status=looks[-1].status,
            stage="integrity",
            scope=at.scope,
            findings=found,
            admission=job.admission,
        )
    skipped = (*at.scope.skipped, *(words for look in looks for words in look.skipped))
    at = at._replace(scope=at.scope.model_copy(update={"skipped": skipped}))
    return _tried(job.model_copy(update={"build": "stock"}), at, (*warnings, *found), announce)


def _located(job: Job, at: Shapes, warnings: tuple[Finding, ...], announce: Announce) -> Evaluation:
    """Where a kernel fails that fell on a GPU: no verdict, but what shows at small sizes."""
    return locating.looked_for(
        str(job.locates),
        lambda: _emulated(job, at, announce),
        lambda: confirmation.sanitized(job, at.scope, announce),
    )


def _emulated(job: Job, at: Shapes, announce: Announce) -> Evaluation:
    """The emulator's verdict, at small sizes, on a candidate for a GPU."""
    # What was asked for beside the protocol is judged, and the envelope probed, in the GPU's own trial.
    less = {"executor": "emulator", "confirms": False, "requests": (), "envelope_limit_s": 0.0}
    scope = at.scope.model_copy(update={"executor": "emulator"})
    return _on_emulator(job.model_copy(update=less), scope, (), announce)


def _tried(job: Job, at: Shapes, warnings: tuple[Finding, ...], announce: Announce) -> Evaluation:
    lane = lane_for(job, announce)
    kind = GpuTrial if job.executor == "cuda" else Trial
    with (
        workspace(job.candidate, at.trace, lane) as folder,
        kind(job, at.source, at.trace, folder=folder, lane=lane) as trial,
    ):
        status: Status = Status.VERIFIED
        stage: Stage = "verify"
        refusal: tuple[Finding, ...] = ()
        measurement = profile = handled = None
        left_out: tuple[str, ...] = ()
        scope = at.scope
        environment = trial.environment()
        try:
            announce("building")
            trial.load()
            trial.verify(announce)
            left_out = tuple(requests.judge(job, trial.talk(), announce))
            if at.scope.shapes == "shrunken":
                announce("checking addresses at the real sizes")
                scope = _at_real_shape(at.scope)
                left_out += trial.check_addresses(job.problem.trace)
                scope = at.scope
            if isinstance(trial, GpuTrial):
                times = trial.time(announce) if job.measure else None
                profile = trial.watch(announce)
                if times is not None:
                    stage, measurement = "measure", _measured(trial, times, profile, environment.gpu, job)
            if job.protocol == "full":
                handled = _beside(job, at, folder, lane, trial, announce)
        except Refused as refused:
            status, stage, refusal = refused.status, refused.stage, refused.findings
        trial.end()
        return Evaluation(
            status=status,
            stage=stage,
            scope=scope.model_copy(
                update={"skipped": (*scope.skipped, *trial.skipped(), *lane.unchecked(), *left_out)}
            ),
            findings=(*refusal, *warnings, *trial.findings),
            build=trial.build or lane.built(),
            correctness=trial.correctness if status is Status.VERIFIED else None,
            mismatch=trial.mismatch if status is Status.INCORRECT else None,
            measurement=measurement,
            profile=profile,
            environment=environment,
            admission=job.admission,
            envelope=handled,
        )


def _beside(job: Job, at: Shapes, folder: Path, lane: Lane, trial: Trial, announce: Announce) -> Envelope:
    """What takes another process: whether it builds the same, and what it handles beyond what is stated.

    Raises Refused for the former alone.
    """
    with contextlib.ExitStack() as stack:
        if isinstance(trial, GpuTrial):
            # The next process finds in `folder` what stock `load_inline` built there.
            trial.end()
        else:
            folder = stack.enter_context(workspace(job.candidate, at.trace, lane))
        subject = stack.enter_context(Subject(job, at.trace, folder))
        if not isinstance(trial, GpuTrial):
            announce("loading the file a second time")
            second_pass.check(subject, trial.asked)
        announce("probing what else it handles")
        return envelope.probed(job, at.trace, subject, trial.talk())


def _measured(trial: GpuTrial, times: clock.Times, seen: Profile, gpu: str | None, job: Job) -> Measurement:
    """Raises Refused for times that cannot be."""
    found = clock.measurement(times, gpu or "unknown", job.floor_ms, trial.alone())
    trial.findings += clock.findings(times, found)
    impossible = clock.impossible(found)
    if impossible is not None:
        raise Refused(Status.REJECTED, "measure", [impossible])
    kernels = trial.build.kernels if trial.build else ()
    advice = slow.recommendation(found, job.problem.trace, kernels, seen)
    trial.findings += [advice] if advice else []
    return found


def _changed(shrunk: problems.Shrunken) -> dict[str, tuple[int, int]]:
    return {name: (real, used) for name, (real, used) in shrunk.sizes.items() if real != used}


def _at_real_shape(scope: Scope) -> Scope:
    return scope.model_copy(update={"shapes": "full", "sizes": {}})


def _unsupported(scope: Scope, reason: Finding, tried: Evaluation | None = None) -> Evaluation:
    seen = tuple(f.model_copy(update={"severity": "note"}) for f in tried.findings) if tried else ()
    return Evaluation(
        status=Status.UNSUPPORTED, stage="verify", scope=scope, findings=(reason, *seen),
        build=tried.build if tried else None, environment=tried.environment if tried else None,
    )  # fmt: skip


def _too_large(trace: Trace) -> Finding:
    return Finding(
        kind="too-large",
        message=f"The reference has no module-level sizes to scale; it takes {trace.flops:.3g} operations "
        f"on {trace.min_bytes >> 20} MB, too much for the emulator; judge it on a GPU.",
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
        except AgentError as fault:
            say({"fault": {"exit": fault.exit_code, "message": str(fault)}})


if __name__ == "__main__":
    main(sys.argv)
