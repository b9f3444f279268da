"""What the tools answer, each with a bound on its size: an agent pays for every word it reads."""

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
    """A problem: what is to be computed, how large it is, how fast it could be."""

    name: str
    source: str
    """The reference."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    parameters: tuple[str, ...]
    operators: tuple[Operator, ...]
    operators_left_out: int
    flops: int
    least_bytes: int
    """Inputs and parameters read once, outputs written once."""
    gpu: str
    """The GPU that kernels are written for."""
    floor_ms: float | None
    """No kernel is faster there (roofline); null for a GPU that is not known."""
    card: Card | None
    """Units, memories and limits of that GPU."""


class Verdict(Record):
    """The verdict on one candidate. `accepted` exactly when the status is `verified`."""

    accepted: bool
    status: Status
    stage: str
    """Where it ended: screen, build, run, verify, integrity or measure."""
    scope: str
    """What the verdict covers: executor, sizes, isolation, protocol."""
    skipped: tuple[str, ...]
    findings: tuple[Finding, ...]
    """The headline first; each names a cause and a place, and says the mend where there is one."""
    findings_left_out: int
    advice: str
    """The same in the words that a model in the loop is told."""
    correctness: Correctness | None
    measurement: Measurement | None
    attempt: int | None = None
    """Its number, where it is an attempt of a run."""


class Mended(Record):
    """A candidate and its mends, each judged; the last is the one to go on from."""

    verdicts: tuple[Verdict, ...]
    changes: tuple[str, ...]
    """What was mended, as a unified diff for each mend."""
    source: str
    """The last mend's text."""


class Profiled(Record):
    """What was measured and counted; on the emulator what the compiler says and no time."""

    verdict: Verdict
    build: Build | None
    kernels: Profile | None
    """What one call launches, longest first."""
    note: str


class Standing(Record):
    """The best verified candidate of a run, and a new one beside it."""

    run: str
    best: int | None
    """Number of the attempt; null until something is verified."""
    best_scope: str | None
    best_source: str | None
    best_measurement: Measurement | None
    candidate: Verdict | None
    """Null where none was given."""
    better: bool | None
    """Whether it would replace the best."""
    change: str
    """A unified diff from the best to it."""


class RunState(Record):
    """A run, and what came of what was handed in."""

    run: str
    problem: str
    state: str
    outcome: str | None
    """`verified`, `no_kernel`, `budget` or `failed` once it has ended."""
    reason: str | None
    rounds: int
    rounds_planned: int | None
    best: int | None
    best_file: str | None
    new: tuple[Verdict, ...] = ()
    """Verdicts on what was handed in, mends included."""
    told: str = ""
    """What is to be read before the next answer."""


class RunLine(Record):
    """A run in a list."""

    run: str
    problem: str | None
    state: str
    outcome: str | None
    executor: str | None
    attempts: int
    best: int | None
    speedup: float | None


def cut(text: str, most: int = TEXT_CHARACTERS) -> str:
    """The text, its middle left out where it is too long."""
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
    """`attempt` pairs the candidate with the verdict, as the words for a model need it."""
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
    """`before`: so many attempts are known to whoever asks."""
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
