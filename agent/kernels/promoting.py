"""Promotion of a run's verified candidate to a file beside the shipped kernels.

The file is kept with its reference and a kernel.json. The caller judges the candidate again. Only a candidate
that a real GPU verified again is kept, and any other is refused. A promoted kernel is a ModelNew file;
turning it into an operator with a gradient is manual work.
"""

from datetime import UTC, datetime
from importlib.metadata import version

from agent.errors import EnvironmentFault, UsageError
from agent.kernels import manifest, sources
from agent.kernels.manifest import Manifest, Verified
from agent.records import Attempt, Evaluation, Problem, Status
from agent.store.renaming import with_reference_names


def promote(problem: Problem, attempt: Attempt, again: Evaluation, run: str, verifier_version: str) -> str:
    """Keep the candidate, and return its name; an earlier kernel of that name is replaced.

    Raises UsageError unless a GPU verified the candidate, and EnvironmentFault if the folder is read-only.
    """
    if again.status is not Status.VERIFIED or again.scope.executor != "cuda":
        raise UsageError(
            f"{run}: attempt {attempt.number} is {again.status} on {again.scope}; only a kernel that a "
            "GPU verifies again is promoted"
        )
    name = f"{sources.PROMOTED}/{problem.name.rpartition('/')[2]}"
    folder = sources.ROOT / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        named = with_reference_names(attempt.candidate.source, again.scope.parameters)
        (folder / sources.CANDIDATE).write_text(named, encoding="utf-8")
        (folder / sources.REFERENCE).write_text(problem.source, encoding="utf-8")
    except OSError as error:
        raise EnvironmentFault(f"cannot write {folder}: {error.strerror}") from error
    correctness = again.correctness
    verdict = Verified(
        problem=problem.name, executor="cuda", status=str(again.status), scope=str(again.scope),
        verifier_version=verifier_version, files=manifest.fingerprint(name),
        date=datetime.now(UTC).date().isoformat(), torch=version("torch"),
        max_abs_err=correctness.max_abs_err if correctness else None,
        error_budget_ratio=correctness.error_budget_ratio if correctness else None,
    )  # fmt: skip
    known = Manifest(
        name=name, dtypes=("float32",), envelope=("the reference's own shapes",),
        source=f"run {run}, attempt {attempt.number}",
    )  # fmt: skip
    manifest.save(manifest.with_verdict(known, verdict))
    return name
