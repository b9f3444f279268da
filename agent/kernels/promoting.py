"""Keeps a run's verified candidate among the shipped kernels, as a file beside its kernel.json.

Only what a real GPU has verified anew is kept; the caller judges, and this refuses anything else. What is
kept is a ModelNew file: an operator with a gradient is made of it by hand.
"""

from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from agent.errors import EnvironmentFault, UsageError
from agent.kernels import sources
from agent.kernels.manifest import Manifest, Verified
from agent.records import Attempt, Evaluation, Problem, Status, digest

PROMOTED = sources.ROOT / "promoted"


def promote(problem: Problem, attempt: Attempt, again: Evaluation, run: str, verifier_version: str) -> Path:
    """The folder it was kept in. Raises UsageError for a verdict that is none of a GPU."""
    if again.status is not Status.VERIFIED or again.scope.executor != "cuda":
        raise UsageError(
            f"{run}: attempt {attempt.number} is {again.status} on {again.scope}; only what a GPU verifies "
            "anew is promoted"
        )
    source = attempt.candidate.source
    name = problem.name.rpartition("/")[2]
    folder = PROMOTED / name
    correctness = again.correctness
    verdict = Verified(
        problem=problem.name, executor="cuda", status=str(again.status), scope=str(again.scope),
        verifier_version=verifier_version, files=digest(source), date=datetime.now(UTC).date().isoformat(),
        torch=version("torch"), max_abs_err=correctness.max_abs_err if correctness else None,
        error_budget_ratio=correctness.error_budget_ratio if correctness else None,
    )  # fmt: skip
    known = Manifest(
        name=f"promoted/{name}", dtypes=("float32",), envelope=("the reference's own shapes",),
        files={f"promoted/{name}/{sources.CANDIDATE}": digest(source)}, verifier_version=verifier_version,
        source=f"run {run}, attempt {attempt.number}", verified=(verdict,),
    )  # fmt: skip
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / sources.CANDIDATE).write_text(source, encoding="utf-8")
        (folder / sources.MANIFEST).write_text(known.model_dump_json(indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise EnvironmentFault(f"cannot write {folder}: {error.strerror}") from error
    return folder
