"""Has the ModelNew face of a shipped kernel judged, and writes the verdict into its kernel.json.

The judge is given: this package neither builds nor runs a candidate. On the emulator the portable path is
judged; what a library holds for one architecture is proven on such a GPU alone.
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
"""The reference that a kernel is judged against; a promoted one has its own beside it."""


def reference(name: str) -> str:
    """Address of the problem that a kernel is judged as an answer to."""
    return PROBLEMS.get(name) or str(sources.ROOT / name / sources.REFERENCE)


def audited(
    name: str, problem: Problem, judge: Executor, verifier_version: str, arch: str | None = None
) -> tuple[Manifest, Evaluation]:
    """The manifest with the verdict, not yet saved, and the verdict itself.

    `arch` (`90a`) is that of the GPU that the judge uses: the file judged then holds the path for it.
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
    """The manifest as saved, with what the operator says of itself now, where there is one. Imports torch."""
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
