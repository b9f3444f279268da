"""Attempts with prepared verdicts, for tests that judge nothing."""

from typing import Literal

from agent.records import (
    Attempt,
    Build,
    Candidate,
    Correctness,
    Evaluation,
    Finding,
    KernelResources,
    Measurement,
    Percentiles,
    Problem,
    Scope,
    Status,
)


class OneLook:
    """Base of executors that make no second look."""

    def confirm(self, problem: Problem, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        return evaluation


def refused(number: int, *findings: Finding, status: Status = Status.INCORRECT, source: str = "") -> Attempt:
    """Return an attempt that the emulator judged and refused."""
    found = findings or (Finding(kind="statistics-over-batch", message="The statistics span the batch."),)
    return Attempt(
        number=number,
        candidate=Candidate(problem="level1/group_norm", source=source or f"attempt = {number}\n"),
        evaluation=Evaluation(
            status=status, stage="verify", scope=Scope(executor="emulator"), findings=found
        ),
    )


def verified(
    number: int,
    p50: float | None = None,
    *,
    executor: Literal["cuda", "emulator"] = "cuda",
    shapes: Literal["full", "shrunken"] = "full",
    source: str = "",
    warnings: tuple[Finding, ...] = (),
) -> Attempt:
    """Return a verified attempt. `p50` is its median time in milliseconds, or None if it was not timed."""
    sizes = {"batch_size": (112, 16)} if shapes == "shrunken" else {}
    return Attempt(
        number=number,
        candidate=Candidate(problem="level1/group_norm", source=source or f"attempt = {number}\n"),
        evaluation=Evaluation(
            status=Status.VERIFIED,
            stage="measure" if p50 else "verify",
            scope=Scope(executor=executor, shapes=shapes, sizes=sizes),
            findings=warnings,
            build=Build(
                seconds=31.5,
                backend="load_inline",
                kernels=(KernelResources(name="group_norm_kernel", registers=32, spill_bytes=0),),
            ),
            correctness=Correctness(draws=3, max_abs_err=2e-6, max_rel_err=None, error_budget_ratio=0.043),
            measurement=_measurement(p50) if p50 else None,
        ),
    )


def _measurement(p50: float) -> Measurement:
    return Measurement(
        gpu="NVIDIA H200",
        candidate_ms=Percentiles(p20=0.9 * p50, p50=p50, p80=1.2 * p50),
        eager_ms=Percentiles(p20=9.0, p50=9.09, p80=9.3),
        compile_ms=Percentiles(p20=5.3, p50=5.37, p80=5.5),
        baseline="compile",
        roofline_fraction=0.5,
        method="CUDA events",
    )
