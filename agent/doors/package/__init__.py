"""A verified kernel as a package of its own, which needs torch and not us.

Contract: nothing is exported that no judge has verified; verdict and scope lie inside. `folder` holds
ModelNew, `torch-library` also an operator with its fake, and with autograd where the gradients were judged.
"""

import json
import keyword
import re
from pathlib import Path
from string import Template
from typing import Literal

from agent import __version__
from agent.api import Run
from agent.errors import EnvironmentFault, UsageError
from agent.records import Attempt, Problem, TensorSpec

Format = Literal["folder", "torch-library"]
FORMATS: tuple[Format, ...] = ("folder", "torch-library")
_TEMPLATES = Path(__file__).parent / "templates"


def export(run: Run, folder: Path, form: Format, name: str | None = None) -> list[Path]:
    """Writes the best kernel of a run to `folder`, which is new; the files that were written.

    Raises UsageError for a run with nothing verified and for a name that is none.
    """
    best, source = run.best, run.best_source
    if best is None or source is None:
        raise UsageError(f"run {run.address} has no verified kernel; only what is verified is exported")
    problem = run.problem
    name = name or named(problem.name)
    if not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError(f"--name {name!r} is no name of a Python package")
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} holds something already; name a new folder")
    texts = _texts(run, best, name)
    package = f"src/{name}"
    files = {
        "pyproject.toml": _filled("pyproject.toml", texts),
        "README.md": _filled("README.md", texts),
        f"{package}/__init__.py": _filled("init.py", texts),
        f"{package}/candidate.py": source,
        f"{package}/reference.py": problem.source,
        f"{package}/verdict.json": best.evaluation.model_dump_json(indent=1),
    }
    if form == "torch-library":
        files[f"{package}/operator.py"] = _filled("operator.py", texts | _of_operator(problem, best))
    try:
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise EnvironmentFault(f"{folder} cannot be written: {error.strerror}") from error
    return [folder / path for path in files]


def named(problem: str) -> str:
    """The package of a problem: `level1/group_norm` is `group_norm_kernel`."""
    words = re.sub(r"\W+", "_", problem.rpartition("/")[2], flags=re.ASCII).strip("_").lower()
    return f"{words if words[:1].isalpha() else f'k{words}'}_kernel"


def _texts(run: Run, best: Attempt, name: str) -> dict[str, str]:
    found = best.evaluation
    skipped = "".join(f"\n- not checked: {check}" for check in found.scope.skipped)
    return {
        "name": name,
        "problem": run.problem.name,
        "run": run.id,
        "attempt": str(best.number),
        "version": __version__,
        "scope": str(found.scope),
        "skipped": skipped,
        "envelope": f"\nBeyond what is stated: {found.envelope}\n" if found.envelope else "",
        "inputs": "\n".join(f"- {_words(one)}" for one in run.problem.trace.inputs),
    }


def _of_operator(problem: Problem, best: Attempt) -> dict[str, str]:
    """What the operator's file has beside: the inputs that are no tensors, the names of parameters."""
    given = [None if isinstance(one, TensorSpec) else {"value": one} for one in problem.trace.inputs]
    return {
        "given": repr(json.loads(json.dumps(given))),
        "state": repr(tuple(one.name for one in problem.trace.state)),
        "differentiable": repr("backward" in best.evaluation.scope.requested),
    }


def _words(one: object) -> str:
    return f"{one.dtype} {tuple(one.shape)}" if isinstance(one, TensorSpec) else f"the value {one!r}"


def _filled(template: str, texts: dict[str, str]) -> str:
    return Template((_TEMPLATES / f"{template}.in").read_text(encoding="utf-8")).substitute(texts)
