"""Judging a shipped kernel's ModelNew file, and recording the verdict in its kernel.json.

The caller passes the judge: this package neither builds nor runs a candidate. The emulator judges the
portable path. The path for one architecture is judged only on a GPU of that architecture.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import version

from agent.kernels import manifest, sources
from agent.kernels.manifest import Manifest, Verified
from agent.protocols import Executor
from agent.records import Candidate, Evaluation, Problem

PROBLEMS = {name: f"level{2 if name in sources.FUSED else 1}/{name}" for name in sources.NAMES} | {
    **{name: str(sources.ROOT / name / sources.REFERENCE) for name in sources.OWN_REFERENCES},
    "linear_fp32x3": "level1/matmul",
    "matmul_fp32x3": "level1/matmul",
}
"""Problem on which each kernel is judged. A promoted kernel has its own reference beside it."""


def reference(name: str) -> str:
    """Return the address of the problem that the kernel is judged on."""
    return PROBLEMS.get(name) or str(sources.ROOT / name / sources.REFERENCE)


def audited(
    name: str, problem: Problem, judge: Executor, verifier_version: str, arch: str | None = None
) -> tuple[Manifest, Evaluation]:
    """Return the manifest with the new verdict, not yet saved, and the evaluation itself.

    `arch` (`90a`) names the architecture of the judge's GPU. The judged file then includes
    the path for that architecture.
    """
    candidate = Candidate(problem=problem.name, source=sources.candidate(name, arch), origin="catalogue")
    evaluation = judge.confirm(problem, candidate, judge.evaluate(problem, candidate))
    correctness = evaluation.correctness
    verdict = Verified(
        problem=problem.name,
        executor=evaluation.scope.executor,
        status=str(evaluation.status),
        scope=str(evaluation.scope),
        verifier_version=verifier_version,
        files=manifest.fingerprint(name),
        date=datetime.now(UTC).date().isoformat(),
        torch=version("torch"),
        max_abs_err=correctness.max_abs_err if correctness else None,
        error_budget_ratio=correctness.error_budget_ratio if correctness else None,
    )
    return manifest.with_verdict(described(name), verdict), evaluation


def described(name: str) -> Manifest:
    """Return the saved manifest, updated from the operator's own constants if the kernel has an operator.

    The constants are its schemas, dtypes and envelope. Imports torch.
    """
    if name not in sources.NAMES:
        return manifest.load(name)
    operator = import_module(f"agent.kernels.{name}.operator")
    schemas: Sequence[str] = operator.SCHEMAS
    dtypes = getattr(operator, "DTYPES", import_module("agent.kernels.routing").DTYPES)
    return manifest.load(name).model_copy(
        update={
            "operators": tuple(schemas),
            "dtypes": tuple(str(dtype).removeprefix("torch.") for dtype in dtypes),
            "envelope": tuple(operator.ENVELOPE),
        }
    )
