"""Runs for the tests of the viewer, written event by event as `solve()` does."""

from collections.abc import Iterator
from pathlib import Path

import torch
from transcripts import SETTINGS, TRACE, candidate, prompt

from agent.diagnosis.mismatch import error_map
from agent.records import (
    Attempt,
    Build,
    Completed,
    Completion,
    Correctness,
    Evaluated,
    Evaluation,
    Event,
    Feedback,
    Finding,
    KernelResources,
    KernelTime,
    Location,
    Measurement,
    Move,
    Operation,
    Percentiles,
    Problem,
    Profile,
    Prompt,
    Prompted,
    ReplyRejected,
    RetryScheduled,
    RunFinished,
    RunStarted,
    Scope,
    Status,
    TensorSpec,
    Usage,
)
from agent.search import ideas
from agent.store import Run, create

GPU = Scope(executor="cuda", isolation="bubblewrap")
KERNEL = '''"""Softmax over the last dimension."""
import torch
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
__global__ void softmax_kernel(const float* x, float* y, int columns) {
    // one block for each row, version %d
    float total = 0.0f;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) total += expf(x[i]);
    y[threadIdx.x] = total;
}
"""
module = load_inline("softmax", cpp_sources="", cuda_sources=SOURCE)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return module.softmax(x, %d)
'''
X = TensorSpec(shape=(4096, 8192), dtype="float32")
SOFTMAX = Operation(
    op="_softmax",
    overload="aten._softmax.default",
    inputs=(X,),
    outputs=(X,),
    attributes={"dim": -1, "half_to_float": False},
    flops=4 * X.elements,
    bytes=2 * X.bytes,
)
PROBLEM = Problem(
    name="level1/softmax",
    source="class Model: ...\n",
    trace=TRACE.model_copy(
        update={
            "operations": (SOFTMAX,), "inputs": (X,), "outputs": (X,), "flops": SOFTMAX.flops,
            "min_bytes": SOFTMAX.bytes,
        }
    ),
)  # fmt: skip
STARTED = RunStarted(problem=PROBLEM, provider="openai_compat", executor="cuda", rounds=8, patience=3)
BUILD = Build(
    seconds=3.1,
    backend="gpu-slim",
    warnings=("variable 'n' was declared but never referenced",),
    kernels=(KernelResources(name="softmax_kernel", registers=38, spill_bytes=0, shared_bytes=4096),),
)


def times(middle: float) -> Percentiles:
    return Percentiles(p20=middle * 0.96, p50=middle, p80=middle * 1.07)


def measured(ms: float) -> Evaluation:
    profile = Profile(
        kernels=(
            KernelTime(name="softmax_kernel", launches=1, ms=ms * 0.9, own=True),
            KernelTime(name="memset", launches=2, ms=ms * 0.06, own=False),
        ),
        streams=1,
    )
    measurement = Measurement(
        gpu="NVIDIA H200",
        candidate_ms=times(ms),
        eager_ms=times(0.121),
        compile_ms=times(0.094),
        baseline="compile",
        roofline_fraction=0.056 / ms,
        method="in turns with the reference, fresh contents",
        rounds=30,
        speedup_interval=(0.093 / ms, 0.095 / ms),
        stable=True,
    )
    seen = Correctness(draws=12, max_abs_err=1e-6, max_rel_err=2e-6, error_budget_ratio=0.21)
    return Evaluation(
        status=Status.VERIFIED, stage="measure", scope=GPU, build=BUILD, correctness=seen,
        measurement=measurement, profile=profile,
    )  # fmt: skip


def failed(status: Status, finding: Finding, **more: object) -> Evaluation:
    stage = {Status.BUILD_ERROR: "build", Status.RUNTIME_ERROR: "run", Status.REJECTED: "screen"}
    fields = {"status": status, "stage": stage.get(status, "verify"), "scope": GPU, "findings": (finding,)}
    return Evaluation.model_validate(fields | more)


def wrong() -> Evaluation:
    """The last partial tile was left out."""
    mask = torch.zeros(96, 200, dtype=torch.bool)
    mask[:, 192:] = True
    mask[90:, ::3] = True
    finding = Finding(
        kind="lost-last-block",
        message="The last 8 of 200 columns are never written: the grid is rounded down.",
        location=Location(line=9, kernel="softmax_kernel", block=(0, 0, 3), thread=(8, 0, 0)),
        evidence="first (0, 192): got 0, expected 0.1624699",
    )
    return failed(Status.INCORRECT, finding, build=BUILD, mismatch=error_map.draw_map(mask))


def answer(number: int, text: str) -> Completion:
    return Completion(
        provider="openai_compat", model="gpt-oss-120b", text=f"```python\n{text}```\n", seconds=21.5 + number,
        reasoning="The last tile is partial, so the grid has to be rounded up. " * 12,
        usage=Usage(input_tokens=2400 + 310 * number, output_tokens=1900, reasoning_tokens=700),
        finish_reason="stop", cost_usd=0.0042 * number,
    )  # fmt: skip


def verdicts() -> list[Evaluation]:
    missing = Finding(
        kind="missing-declaration",
        message="`softmax` is listed in `functions`, but cpp_sources does not declare it.",
        location=Location(line=13, text="module = load_inline("),
        evidence="error: 'softmax' was not declared in this scope",
    )
    illegal = Finding(
        kind="out-of-bounds",
        message="`x` is read 64 bytes behind its end.",
        location=Location(line=9, kernel="softmax_kernel"),
        severity="error",
    )
    return [
        failed(Status.BUILD_ERROR, missing), failed(Status.RUNTIME_ERROR, illegal, build=BUILD), wrong(),
        measured(0.1602), measured(0.0931), measured(0.0983), measured(0.0688),
    ]  # fmt: skip


def events(judged: list[Evaluation]) -> Iterator[Event]:
    """A run whose second attempt is a mend, whose second round gave no code, and which had to wait once."""
    yield STARTED
    parent: dict[str, str] = {}
    for number, verdict in enumerate(judged, 1):
        source, mend = KERNEL % (number, number), number == 2
        round_ = number if number > 2 else 1
        if not mend:
            asked = prompt(f"Round {round_}: write a softmax kernel.\n" + "Keep to the interface.\n" * 4)
            yield Prompted(round=round_, prompt=asked)
            if number == 4:
                yield RetryScheduled(reason="429 slow down", wait_seconds=2.0, tries=1)
            yield Completed(round=round_, prompt_id=asked.id, completion=answer(round_, source))
        made = candidate(source, origin="mend" if mend else "model", **parent)
        parent = {"parent": made.id}
        attempt = Attempt(number=number, candidate=made, evaluation=verdict)
        yield Evaluated(round=round_, attempt=attempt, seconds=8.0 + number)
        if mend:
            asked = prompt("Round 2: what went wrong?")
            yield Prompted(round=2, prompt=asked)
            yield Completed(round=2, prompt_id=asked.id, completion=answer(2, "no code here"))
            feedback = Feedback(attempt=None, kind="no-model-new", text="No block defines ModelNew.")
            yield ReplyRejected(round=2, feedback=feedback)


def write(runs_dir: Path, given: Iterator[Event], **settings: object) -> Run:
    options = {"provider": "openai_compat", "model": "gpt-oss-120b", "executor": "cuda", "rounds": 8}
    run = create(runs_dir, SETTINGS.model_copy(update=options | settings))
    with run.writer() as writer:
        for event in given:
            writer.append(event)
    return run


def measured_run(runs_dir: Path) -> Run:
    def whole() -> Iterator[Event]:
        yield from events(verdicts())
        yield RunFinished(outcome="verified", best=7, reason="attempt 7 is verified (GPU, 1.37x)")

    return write(runs_dir, whole())


def long_run(runs_dir: Path, attempts: int) -> Run:
    """Many rounds; every tenth attempt is measured, the others are wrong."""
    judged = [measured(0.2 - 0.0005 * n) if n % 10 == 9 else wrong() for n in range(attempts)]
    return write(runs_dir, events(judged), rounds=attempts)


def searched(upto: int = 99) -> Iterator[Event]:
    """A beam of three lines: one is made faster twice, one is repaired; one answer repeats an earlier one."""
    made = [
        (1, Move(), "generate", measured(0.131)),
        (2, Move(idea=ideas.choose_idea(1)), "generate", wrong()),
        (3, Move(idea=ideas.choose_idea(2)), "generate", measured(0.0931)),
        (4, Move(after=3), "optimise", measured(0.0983)),
        (5, Move(after=2), "repair", measured(0.1602)),
        (6, Move(after=4), "optimise", measured(0.0688)),
        (7, Move(after=6, beside=1), "combine", None),
        (8, Move(after=6), "optimise", None),
    ]  # fmt: skip
    yield STARTED.model_copy(update={"search": "beam"})
    parents: dict[int | None, str] = {}
    for number, move, template, verdict in made[:upto]:
        text = f"Round {number}: write a softmax kernel.\n"
        asked = Prompt.model_validate(
            {"template": template, "messages": ({"role": "user", "content": text},)}
        )
        yield Prompted(round=number, prompt=asked, move=move)
        if number == 8:
            return
        source = KERNEL % (number, number)
        yield Completed(round=number, prompt_id=asked.id, completion=answer(number, source))
        if verdict is None:
            said = "Under other names and comments this builds to the program of attempt 6 again."
            told = Feedback(attempt=None, kind="repeated-answer", text=said)
            yield ReplyRejected(round=number, feedback=told, candidate="0" * 16, program="1" * 64)
            continue
        more = {"parent": parents[move.after]} if move.after else {}
        candidate_ = candidate(source, **more)
        parents[number] = candidate_.id
        attempt = Attempt(number=number, candidate=candidate_, evaluation=verdict)
        yield Evaluated(round=number, attempt=attempt, seconds=8.0 + number)


def beam_run(runs_dir: Path) -> Run:
    return write(runs_dir, searched())
