"""Executors of this machine, for its GPU and the emulator, which start a judge process per candidate."""

import contextlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from agent import config, errors, gpu_build, problems
from agent.emulator.compile import toolchain
from agent.executors import second_look, warm
from agent.executors.phases import PhaseClock
from agent.harness.admission import check
from agent.harness.backends import gpu_memory
from agent.harness.confirmation import fault_localization
from agent.harness.disk_cache import cached
from agent.harness.task.job import BUILD_LIMIT_S, ORACLE_LIMIT_S, Job
from agent.problems import Shrunken
from agent.records import (
    Admission,
    Candidate,
    Evaluation,
    Finding,
    LibraryOps,
    MoreBaselines,
    Problem,
    Request,
    Status,
    TensorSpec,
    Trace,
    digest,
)
from agent.sandbox import Child, ChildFault, Limits, ProcessServer

Announce = Callable[[str], None]
Cancelled = Callable[[], bool]
"""Function that returns True once the caller has cancelled.

It is called several times a second, from any thread.
"""
JUDGE_PROCESS = "agent.harness.judge.evaluate"
"""Module that a judge process runs."""
ENVELOPE_S = {"cuda": 2.0, "emulator": 4.0}
"""Seconds after which no further robustness probe begins; other trials share the GPU meanwhile."""
JUDGE = Limits(gentle=True)
JUDGE_LIMIT_S = 4 * (BUILD_LIMIT_S + ORACLE_LIMIT_S)
"""Maximum seconds without a message of a judge, whose steps have tighter limits of their own."""
_FLOAT64_BYTES = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeOptions:
    """Options with which an executor judges every candidate."""

    candidate_timeout_s: float
    """Maximum seconds for each command of a candidate's process."""
    library_ops: LibraryOps = "gemm-conv"
    """Torch operators that a candidate may use for part of the result."""
    protocol: Literal["full", "quick"] = "full"
    requests: tuple[Request, ...] = ()
    """Optional checks beyond the protocol."""
    measure: bool = True
    """True if a verified candidate is timed."""
    baselines: tuple[MoreBaselines, ...] = ()
    """Baselines in addition to eager, torch.compile and a CUDA graph."""
    floor_ms: float | None = None
    """Roofline floor of the problem on the GPU, in milliseconds, if known."""
    unchecked: bool = False
    """True to turn the emulator's sanitizer off."""


class LocalExecutor:
    """Executor with one judge process per candidate, in an environment without secrets.

    On `cuda`, the judge builds candidates with the fast build or stock `load_inline` and judges them at full
    shapes. It times verified candidates. The `emulator` runs their kernels on the CPU at affordable shapes
    and never yields a time.
    """

    def __init__(
        self, name: Literal["cuda", "emulator"], *, cache_dir: Path, options: JudgeOptions,
        announce: Announce = lambda what: None, cancelled: Cancelled = lambda: False,
    ) -> None:  # fmt: skip
        """Begin to start the fork servers. Once `cancelled` returns True, evaluations raise Interrupted."""
        self.name = name
        self.options = options
        self._cache_dir = cache_dir
        self._announce = announce
        self._cancelled = cancelled
        self._shrunken: dict[str, Shrunken] = {}
        self._admissions: dict[str, Admission] = {}
        warm.begin(name, cache_dir)

    def admit(self, problem: Problem, anyway: bool = False) -> Admission:
        """Return the problem's admission, probed now or before, which applies to all its later candidates.

        Raises ProblemError for a problem that lets wrong answers pass, unless `anyway`.
        """
        self._announce("probing the problem with wrong answers")
        found = check.probed(
            problem, lambda: self._sizes(problem), self._cache_dir, self._server,
            lambda: self._announce("waiting for another process that probes this problem"),
        )  # fmt: skip
        self._admissions[problem.id] = check.check(problem, found, anyway)
        return self._admissions[problem.id]

    def is_admission_known(self, problem: Problem) -> bool:
        """Return True if `admit` answers at once because the problem was probed before."""
        return problem.id in self._admissions or check.is_known(problem, self._cache_dir)

    def prepare(self, problem: Problem) -> None:
        """Prepare what judging the problem needs besides the admission: toolchains and shrunken sizes.

        A step that fails is skipped here; the judge repeats the step and reports the failure.
        """
        steps: list[Callable[[], object]] = [lambda: self._sizes(problem)]
        if self.name == "cuda":
            # A first look needs the fast build. A second look needs the shrunken sizes and the emulator.
            steps.insert(0, lambda: gpu_build.prepare(self._cache_dir))
            steps.append(lambda: toolchain.prepare(self._cache_dir))
        for step in steps:
            with contextlib.suppress(errors.AgentError, gpu_build.Unavailable):
                step()

    def require_memory(self, problem: Problem) -> None:
        """Raise EnvironmentFault if the problem is too large for this GPU even when the GPU is empty.

        The estimate is a lower bound: inputs, outputs and parameters, with float64 copies of
        floating-point tensors.
        """
        total = gpu_memory.total_bytes() if self.name == "cuda" else None
        needed = _held_bytes(problem.trace)
        if total is not None and needed > total:
            raise errors.EnvironmentFault(
                f"{problem.name}: judging takes at least {needed / 1e9:.1f} GB of GPU memory, and this GPU "
                f"has {total / 1e9:.1f} GB; choose smaller sizes or a GPU with more memory"
            )

    def evaluate(self, problem: Problem, candidate: Candidate) -> Evaluation:
        """Return the verdict of the first look. On a GPU, *verified* still has to be confirmed."""
        return self.judge(self.job(problem, candidate))

    def confirm(self, problem: Problem, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        """Return the verdict of the second look at a candidate that the first look verified on a GPU."""
        return self.second_look(self.job(problem, candidate), evaluation)

    def judge(self, job: Job) -> Evaluation:
        """Return the verdict of the first look at a job. Raises Rebuilt for a program in `job.known`."""
        found = self._judged(job, self._announce)
        unlocated = fault_localization.wanted(found)
        if unlocated is not None:
            located = {"locates": unlocated, "shrunken": self._sizes(job.problem), "known": ()}
            where = job.model_copy(update=located)
            return fault_localization.located(found, lambda: self._judged(where, self._announce))
        if job.executor == "emulator" or job.protocol == "quick" or found.status is not Status.VERIFIED:
            return found
        return _marked(found, confirmed=False)

    def second_look(self, job: Job, found: Evaluation) -> Evaluation:
        """Return the verdict of the second look at a verified candidate, or `found` if it needs none.

        The first look's phases are kept, and its envelope if the second look verifies the candidate.
        """
        if not found.unconfirmed:
            return found
        kernels = found.build.kernels if found.build else ()
        again = job.model_copy(update={"shrunken": self._sizes(job.problem), "kernels": kernels})
        second = second_look.made(again, self._judged, lambda what: self._announce(f"second look: {what}"))
        later = (phase.model_copy(update={"name": f"second look, {phase.name}"}) for phase in second.phases)
        verified = second.status is Status.VERIFIED
        kept = {"phases": (*found.phases, *later), "envelope": found.envelope if verified else None}
        confirmed = verified and not second.scope.doubt
        marked = _marked(second.model_copy(update=kept), confirmed=confirmed)
        return _unsupported(marked) if verified and not confirmed and "confirmed" in job.requests else marked

    def job(self, problem: Problem, candidate: Candidate) -> Job:
        """Return the judge's job for one candidate."""
        options = self.options
        return Job(
            problem=problem,
            candidate=candidate,
            executor=self.name,
            candidate_timeout_s=options.candidate_timeout_s,
            cache_dir=str(self._cache_dir),
            library_ops=options.library_ops,
            unchecked=options.unchecked,
            protocol=options.protocol,
            requests=options.requests,
            measure=options.measure,
            envelope_limit_s=ENVELOPE_S[self.name],
            baselines=options.baselines,
            admission=self._admissions.get(problem.id) or self.admit(problem, anyway=True),
            floor_ms=options.floor_ms,
            shrunken=self._sizes(problem) if self.name == "emulator" else None,
        )

    def _judged(self, job: Job, announce: Announce) -> Evaluation:
        return judged(job, announce, self._cancelled)

    def _server(self) -> ProcessServer | None:
        """Return the server that forks the judge's trusted processes, or None if it cannot fork here."""
        return warm.found(self.name, self._cache_dir).trusted

    def _sizes(self, problem: Problem) -> Shrunken:
        if problem.id not in self._shrunken:
            self._announce("scaling the sizes down for the emulator")
            key = digest(problem.source, version("torch"), problems.code())
            file = self._cache_dir / "sizes" / f"{key[:32]}.json"
            self._shrunken[problem.id] = cached(
                file, Shrunken, lambda: problems.shrink(problem),
                lambda: self._announce("waiting for another process that scales these sizes down"),
            )  # fmt: skip
        return self._shrunken[problem.id]


def _held_bytes(trace: Trace) -> int:
    """Return the bytes of inputs, outputs and parameters, and of their float64 copies."""
    inputs = (given for given in trace.inputs if isinstance(given, TensorSpec))
    tensors = (*inputs, *trace.outputs, *trace.state)
    return sum(
        tensor.bytes + (tensor.elements * _FLOAT64_BYTES if "float" in tensor.dtype else 0)
        for tensor in tensors
    )


def _marked(found: Evaluation, *, confirmed: bool) -> Evaluation:
    return found.model_copy(update={"scope": found.scope.model_copy(update={"confirmed": confirmed})})


def _unsupported(doubtful: Evaluation) -> Evaluation:
    """Return *unsupported* for a verified but doubtful candidate, as the user requires `confirmed`."""
    finding = Finding(
        kind="not-confirmed",
        message="The second look found nothing against the candidate, but could not make all of its main "
        f"checks, which `--require confirmed` asks for: {'; '.join(doubtful.scope.doubt)}.",
    )
    changed = {"status": Status.UNSUPPORTED, "findings": (finding, *doubtful.findings)}
    return doubtful.model_copy(update=changed | {"measurement": None, "envelope": None})


def judged(job: Job, announce: Announce, cancelled: Cancelled = lambda: False) -> Evaluation:
    """Return the verdict of a judge process on one job.

    Raises the judge's AgentError, Rebuilt for a known program, or Interrupted once cancelled.
    """
    argv = [sys.executable, "-P", "-m", JUDGE_PROCESS]
    clock = PhaseClock(announce)
    environment = config.child_environment()
    environment["PYTHONPATH"] = config.with_package(environment)
    with contextlib.ExitStack() as stack:
        found = warm.found(job.executor, Path(job.cache_dir))
        job = job.model_copy(update={"servers": found.passed(stack)})
        judge = stack.enter_context(
            Child(
                argv, env=environment, limits=JUDGE, passed=job.servers.descriptors(),
                server=found.trusted,
            )
        )  # fmt: skip

        decided: list[Evaluation] = []

        def progress(message: dict[str, object]) -> dict[str, object]:
            if message.get("request") == "decided":
                decided.append(Evaluation.model_validate(message["evaluation"]))
            else:
                clock(str(message.get("what")))
            return {}

        def no_more_time() -> float:
            # `ask` calls this several times a second while it waits, so the wait can be cancelled here.
            if cancelled():
                raise errors.Interrupted("cancelled before there was a verdict")
            return 0.0

        try:
            answer = judge.ask(
                job.model_dump(mode="json"), JUDGE_LIMIT_S, progress, afresh=True, granted=no_more_time
            )
        except ChildFault as fault:
            if decided:
                return _unexplained(decided[-1], f"its process {fault}", clock)
            raise errors.passing(
                errors.defect("the judge", f"its process {fault}", judge.log[-8_000:])
            ) from None
    if "rebuilt" in answer:
        raise errors.Rebuilt(str(answer["rebuilt"]))
    if "fault" in answer:
        if decided:
            return _unexplained(decided[-1], _fault(answer["fault"]), clock)
        raise _fault(answer["fault"])
    return Evaluation.model_validate(answer["evaluation"]).model_copy(update={"phases": clock.phases()})


def _unexplained(decided: Evaluation, why: object, clock: PhaseClock) -> Evaluation:
    """Return a verdict that was decided before a later step failed, with a note on the failure."""
    said = f"what follows the verdict (its cause, or what else the candidate handles): {why}"
    scope = decided.scope.model_copy(update={"skipped": (*decided.scope.skipped, said[:500])})
    return decided.model_copy(update={"scope": scope, "phases": clock.phases()})


def _fault(fault: dict[str, object]) -> errors.AgentError:
    if fault["exit"] == errors.ProblemError.exit_code:
        return errors.ProblemError(str(fault["message"]))
    kind = errors.PassingFault if fault.get("passing") else errors.EnvironmentFault
    return kind(str(fault["message"]), str(fault["details"]))
