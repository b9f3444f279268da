"""Records for tests of the store and its commands, and a loop that emits events like `solve()`."""

from verdicts import OneLook

from agent.protocols import Executor, Provider, Transcript
from agent.records import (
    Attempt,
    Build,
    Candidate,
    Completed,
    Completion,
    Correctness,
    Evaluated,
    Evaluation,
    Event,
    Feedback,
    Finding,
    Location,
    Measurement,
    Message,
    Percentiles,
    Problem,
    Prompt,
    Prompted,
    ReplyRejected,
    RunFinished,
    RunStarted,
    Scope,
    Status,
    Trace,
)
from agent.store import RunSettings

SETTINGS = RunSettings(
    problem="level1/softmax",
    problem_name="level1/softmax",
    provider="scripted",
    executor="emulator",
    rounds=6,
    patience=2,
)
LONG = "x = 1  # " + "long " * 400
EMULATOR = Scope(
    executor="emulator", shapes="shrunken", sizes={"batch": (112, 16)}, skipped=("timing: no GPU",)
)
TRACE = Trace(operations=(), inputs=(), init_inputs=(), outputs=(), state=(), flops=0, min_bytes=0)
PROBLEM = Problem(name="level1/softmax", source="class Model: ...\n" + LONG, trace=TRACE)
STARTED = RunStarted(problem=PROBLEM, provider="scripted", executor="emulator", rounds=6, patience=2)


def prompt(text: str) -> Prompt:
    return Prompt(template="repair", messages=(Message(role="user", content=text),))


def completion(text: str, reasoning: str | None = None) -> Completion:
    return Completion(provider="scripted", model="scripted-1", text=text, reasoning=reasoning, seconds=1.5)


def candidate(source: str = "class ModelNew: ...\n", **more: str) -> Candidate:
    return Candidate.model_validate({"problem": PROBLEM.name, "source": source, **more})


def evaluation(status: Status = Status.INCORRECT, scope: Scope = EMULATOR) -> Evaluation:
    if status is Status.VERIFIED:
        return Evaluation(
            status=status,
            stage="verify",
            scope=scope,
            correctness=Correctness(draws=3, max_abs_err=1e-6, max_rel_err=1e-6, error_budget_ratio=0.25),
        )
    finding = Finding(
        kind="wrong-statistics",
        message="The variance is taken over the whole batch.",
        location=Location(line=7, text="var = x.var()", kernel="norm", block=(0, 0, 1)),
        evidence="expected 1.0\ngot 2.0",
    )
    build = Build(seconds=2.25, backend="emulator-slim", warnings=("unused variable 'n'",))
    return Evaluation(status=status, stage="verify", scope=scope, findings=(finding,), build=build)


def measured(speedup: float = 2.0) -> Evaluation:
    times = Percentiles(p20=0.9, p50=1.0, p80=1.1)
    eager = Percentiles(p20=speedup, p50=speedup, p80=speedup)
    return evaluation(Status.VERIFIED, Scope(executor="cuda", isolation="bubblewrap")).model_copy(
        update={
            "measurement": Measurement(
                gpu="NVIDIA H200",
                candidate_ms=times,
                eager_ms=eager,
                compile_ms=None,
                baseline="eager",
                roofline_fraction=0.5,
                method="cold L2",
            )
        }
    )


def attempt(number: int, verdict: Evaluation | None = None, **candidate_fields: str) -> Attempt:
    source = f"# {number}\n{LONG}\n"
    return Attempt(
        number=number,
        candidate=candidate(source, **candidate_fields),
        evaluation=verdict if verdict is not None else evaluation(),
    )


class Answers:
    """Provider that answers each prompt and records the prompt ids."""

    name = "scripted"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def complete(self, prompt: Prompt) -> Completion:
        self.asked.append(prompt.id)
        return completion(f"# answer to {prompt.messages[0].content}\n{LONG}", reasoning="hm " * 500)


class Judge(OneLook):
    """Executor that accepts only the candidate of the fourth round, and records the candidates."""

    name = "emulator"

    def __init__(self) -> None:
        self.judged: list[str] = []

    def evaluate(self, problem: Problem, candidate: Candidate) -> Evaluation:
        self.judged.append(candidate.id)
        return evaluation(Status.VERIFIED if "round 4" in candidate.source else Status.INCORRECT)


class Memory:
    """Transcript that keeps its events in memory."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def append(self, event: Event) -> None:
        self.events.append(event)


def converse(provider: Provider, executor: Executor, transcript: Transcript, wording: str = "round") -> None:
    """Emit the events of four rounds like `solve()`. The second answer contains no code."""
    transcript.append(STARTED)
    attempts = 0
    for number in range(1, 5):
        asked = prompt(f"{wording} {number} after {attempts} attempts\n{LONG}")
        transcript.append(Prompted(round=number, prompt=asked))
        answer = provider.complete(asked)
        transcript.append(Completed(round=number, prompt_id=asked.id, completion=answer))
        if number == 2:
            feedback = Feedback(attempt=None, kind="no-code", text="The answer holds no code block.")
            transcript.append(ReplyRejected(round=number, feedback=feedback))
            continue
        attempts += 1
        made = candidate(answer.text)
        judged = Attempt(number=attempts, candidate=made, evaluation=executor.evaluate(PROBLEM, made))
        transcript.append(Evaluated(round=number, attempt=judged, seconds=0.5))
    transcript.append(RunFinished(outcome="verified", best=attempts, reason="verified after 4 rounds"))
