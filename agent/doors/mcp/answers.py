"""Answers of the tools, each bounded in size because an agent pays for every word it reads."""

from agent import feedback, problems, store
from agent.api import Run
from agent.api.submitting import question
from agent.problems.gpu_cards import Card, card
from agent.records import (
    Attempt,
    Build,
    Correctness,
    Evaluation,
    Finding,
    Measurement,
    Problem,
    Profile,
    Record,
    Status,
    TensorSpec,
)

FINDINGS = 12
TEXT_CHARACTERS = 4_000
OPERATIONS = 200
RUNS = 100


class Operator(Record):
    """One call of an operator by the reference."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    flops: int
    bytes: int
    broadcast: str | None


class Description(Record):
    """A problem: the computation, its size, and the fastest possible time."""

    name: str
    source: str
    """Source of the reference."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    parameters: tuple[str, ...]
    operators: tuple[Operator, ...]
    operators_left_out: int
    flops: int
    least_bytes: int
    """Bytes if inputs and parameters are read once and outputs written once."""
    gpu: str
    """GPU that kernels are written for."""
    floor_ms: float | None
    """Least possible time in milliseconds (roofline); null for an unknown GPU."""
    card: Card | None
    """Units, memories and limits of that GPU."""


class Verdict(Record):
    """The verdict on one candidate; `accepted` is true exactly if the status is `verified`."""

    accepted: bool
    status: Status
    stage: str
    """Stage where judging ended: screen, build, run, verify, integrity or measure."""
    scope: str
    """Coverage of the verdict: executor, sizes, isolation, protocol."""
    skipped: tuple[str, ...]
    findings: tuple[Finding, ...]
    """Findings, headline first; each names a cause and a place, and a fix if one is known."""
    findings_left_out: int
    advice: str
    """The findings in the words given to a model in the loop."""
    correctness: Correctness | None
    measurement: Measurement | None
    attempt: int | None = None
    """Number of the attempt, if the candidate belongs to a run."""


class Mended(Record):
    """A candidate and its mends, each judged; continue from the last one."""

    verdicts: tuple[Verdict, ...]
    changes: tuple[str, ...]
    """Changes of each mend as a unified diff."""
    source: str
    """Source of the candidate after the last mend."""


class Profiled(Record):
    """Measurements and counters; on the emulator the compiler's report and no times."""

    verdict: Verdict
    build: Build | None
    kernels: Profile | None
    """Kernels launched by one call, longest first."""
    note: str


class Standing(Record):
    """The best verified candidate of a run, and a new candidate for comparison."""

    run: str
    best: int | None
    """Number of the best attempt; null until one is verified."""
    best_scope: str | None
    best_source: str | None
    best_measurement: Measurement | None
    candidate: Verdict | None
    """Verdict on the new candidate; null if none was given."""
    better: bool | None
    """True if the new candidate would replace the best."""
    change: str
    """Unified diff from the best to the new candidate."""


class RunState(Record):
    """A run, with the verdicts on submitted candidates."""

    run: str
    problem: str
    state: str
    outcome: str | None
    """`verified`, `no_kernel`, `budget` or `failed` once the run has ended."""
    reason: str | None
    rounds: int
    rounds_planned: int | None
    best: int | None
    best_file: str | None
    new: tuple[Verdict, ...] = ()
    """Verdicts on the submitted candidates, including mends."""
    told: str = ""
    """Text to read before the next answer."""


class RunLine(Record):
    """Summary of a run in a list of runs."""

    run: str
    problem: str | None
    state: str
    outcome: str | None
    executor: str | None
    attempts: int
    best: int | None
    speedup: float | None


def cut(text: str, most: int = TEXT_CHARACTERS) -> str:
    """Shorten a text that is too long by leaving out its middle."""
    half = most // 2
    left = len(text) - most
    return text if left <= 0 else f"{text[:half]}\n[{left} characters left out]\n{text[-half:]}"


def description(problem: Problem, gpu: str) -> Description:
    trace = problem.trace
    operators = tuple(
        Operator(
            op=one.overload, inputs=tuple(map(_specification, one.inputs)),
            outputs=tuple(map(_specification, one.outputs)), flops=one.flops, bytes=one.bytes,
            broadcast=one.broadcast,
        )
        for one in trace.operations[:OPERATIONS]
    )  # fmt: skip
    known = problems.roofline.find(gpu)
    return Description(
        name=problem.name, source=cut(problem.source, 16 * TEXT_CHARACTERS),
        inputs=tuple(map(_specification, trace.inputs)), outputs=tuple(map(_specification, trace.outputs)),
        parameters=tuple(map(_specification, trace.state)), operators=operators,
        operators_left_out=len(trace.operations) - len(operators), flops=trace.flops,
        least_bytes=trace.min_bytes, gpu=gpu,
        floor_ms=problems.floor_ms(trace, known) if known else None, card=card(gpu),
    )  # fmt: skip


def _specification(value: object) -> str:
    if not isinstance(value, TensorSpec):
        return f"the value {value!r}"[:200]
    name = f"{value.name}: " if value.name else ""
    return f"{name}{value.dtype} {tuple(value.shape)}"


def verdict(found: Evaluation, attempt: Attempt) -> Verdict:
    """Return the verdict on a candidate; `attempt` pairs both, as the words for a model need it."""
    kept = tuple(_bounded(finding) for finding in found.findings[:FINDINGS])
    return Verdict(
        accepted=found.status is Status.VERIFIED, status=found.status, stage=found.stage,
        scope=str(found.scope), skipped=found.scope.skipped, findings=kept,
        findings_left_out=len(found.findings) - len(kept),
        advice=cut(feedback.on_evaluation(attempt).text, 2 * TEXT_CHARACTERS),
        correctness=found.correctness, measurement=found.measurement, attempt=attempt.number,
    )  # fmt: skip


def _bounded(finding: Finding) -> Finding:
    evidence = finding.evidence
    return finding.model_copy(
        update={"message": cut(finding.message), "evidence": cut(evidence) if evidence else evidence}
    )


def run_state(run: Run, before: int = 0) -> RunState:
    """Return the state of a run; the caller knows the first `before` attempts already."""
    info, log = run.folder.info.settings, run.log
    open_question = question(run)
    new = tuple(verdict(one.evaluation, one) for one in run.attempts[before:])
    rejected = log.rounds[-2].rejected if open_question and len(log.rounds) > 1 else None
    told = rejected.text if rejected else (new[-1].advice if new else "")
    best = run.best
    ended = run.finished is not None and open_question is None
    return RunState(
        run=run.id, problem=info.problem_name,
        state="awaiting an answer" if open_question else store.state_of(run.folder, log),
        outcome=run.finished.outcome if ended and run.finished else None,
        reason=run.finished.reason if ended and run.finished else None,
        rounds=len(log.rounds), rounds_planned=info.rounds, best=best.number if best else None,
        best_file=str(run.best_file) if run.best_file else None, new=new, told=cut(told),
    )  # fmt: skip
