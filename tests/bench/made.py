"""Benches whose runs were made up, for tests that judge nothing."""

from collections.abc import Sequence
from pathlib import Path

from transcripts import EMULATOR, PROBLEM, STARTED, candidate, completion, prompt

from agent import store
from agent.bench import Asked, Bench, Case, create
from agent.records import (
    Attempt,
    Completed,
    Correctness,
    Evaluated,
    Evaluation,
    Finding,
    Measurement,
    Percentiles,
    Prompted,
    RunFinished,
    Scope,
    Spent,
    Status,
)

GPU = Scope(executor="cuda", confirmed=True)


def bench(folder: Path, addresses: Sequence[str], samples: int = 1) -> Bench:
    cases = tuple(Case(address=address, group=address.partition("/")[0]) for address in addresses)
    return create(folder, Asked(suite="made up", cases=cases, samples=samples))


def measured(kernel: float, eager: float, compiled: float | None = None, spread: float = 0.01) -> Measurement:
    def around(ms: float) -> Percentiles:
        return Percentiles(p20=ms * 0.99, p50=ms, p80=ms * 1.01)

    best = "compile" if compiled is not None and compiled < eager else "eager"
    speed = min(eager, compiled or eager) / kernel
    return Measurement(
        gpu="H200", candidate_ms=around(kernel), eager_ms=around(eager),
        compile_ms=around(compiled) if compiled else None, baseline=best, roofline_fraction=0.5,
        method="made up", speedup_interval=(speed * (1 - spread), speed * (1 + spread)),
    )  # fmt: skip


def verified(found: Measurement | None) -> Evaluation:
    return Evaluation(
        status=Status.VERIFIED, stage="verify", scope=GPU if found else EMULATOR, measurement=found,
        correctness=Correctness(draws=3, max_abs_err=0.0, max_rel_err=0.0, error_budget_ratio=0.1),
    )  # fmt: skip


def wrong(kind: str = "wrong-values") -> Evaluation:
    finding = Finding(kind=kind, message="It is wrong.")
    return Evaluation(status=Status.INCORRECT, stage="verify", scope=EMULATOR, findings=(finding,))


def run(
    made: Bench, label: str, evaluations: Sequence[Evaluation], outcome: str | None = None, tokens: int = 0
) -> store.Run:
    """A run of the bench; it ends as its last evaluation says, or as `outcome` does; `open`: not at all."""
    settings = store.RunSettings(
        problem=label, problem_name=PROBLEM.name, provider="scripted", executor="emulator", rounds=6,
        patience=2, options={"label": label},
    )  # fmt: skip
    found = store.create(made.runs_dir, settings)
    best = None
    with found.writer() as writer:
        writer.append(STARTED)
        for number, evaluation in enumerate(evaluations, 1):
            asked = prompt(f"round {number}")
            writer.append(Prompted(round=number, prompt=asked))
            answer = completion("```python\nclass ModelNew: ...\n```")
            usage = answer.usage.model_copy(update={"input_tokens": tokens, "output_tokens": 0})
            answer = answer.model_copy(update={"usage": usage, "cost_usd": tokens / 1000})
            writer.append(Completed(round=number, prompt_id=asked.id, completion=answer))
            attempt = Attempt(
                number=number,
                candidate=candidate(f"class ModelNew: ...  # {number}\n"),
                evaluation=evaluation,
            )
            writer.append(Evaluated(round=number, attempt=attempt, seconds=2.0))
            best = number if evaluation.status is Status.VERIFIED else best
        ended = outcome or ("verified" if best else "no_kernel")
        if ended != "open":
            spent = Spent(rounds=len(evaluations), tokens=tokens, gpu_seconds=36.0, seconds=40.0)
            writer.append(
                RunFinished.model_validate(
                    {"outcome": ended, "best": best, "reason": f"it {ended}", "spent": spent}
                )
            )
    return found
