"""Sources of an export: a run's best kernel or a shipped one, each with the verdict on that very file."""

import json
from difflib import get_close_matches

from agent import __version__
from agent.api import Run, load_problem
from agent.errors import UsageError
from agent.kernels import auditing, manifest, sources
from agent.kernels.manifest import Manifest, Verified
from agent.records import Problem, Record, Status


class Origin(Record):
    """A verified kernel to export, with its verdict."""

    name: str
    """Name from which the package name is derived."""
    problem: Problem
    source: str
    """The judged file, which is exported unchanged."""
    found: str
    """Description of where the kernel comes from."""
    verdict: str
    """Verdict as JSON, with a `status`."""
    scope: tuple[str, ...]
    """Scope of the verification and skipped checks, one line each."""
    envelope: str = ""
    """Sentence on the other inputs that the kernel accepts; empty if they were not examined."""
    differentiable: bool = False
    """True if the kernel's gradients were verified."""
    license: str
    """License of the kernel, as an identifier of Hugging Face."""


def of_run(run: Run) -> Origin:
    """Return the best kernel of a run. Raises UsageError if nothing was verified."""
    best, source = run.best, run.best_source
    if best is None or source is None:
        raise UsageError(f"run {run.address} has no verified kernel; only what is verified is exported")
    found = best.evaluation
    return Origin(
        name=run.problem.name, problem=run.problem, source=source,
        found=f"found in run {run.id} (attempt {best.number}) and verified by kernelwright {__version__}",
        verdict=found.model_dump_json(indent=1),
        scope=(str(found.scope), *(f"not checked: {check}" for check in found.scope.skipped)),
        envelope=f"Beyond what is stated: {found.envelope}" if found.envelope else "",
        differentiable="backward" in found.scope.requested, license="other",
    )  # fmt: skip


def is_kernel(name: str) -> bool:
    """Return True if a shipped or promoted kernel has the name."""
    return name in sources.NAMES or name in sources.promoted()


def near(name: str) -> str:
    """Suggest kernels with a similar name, or the command that lists all names."""
    alike = get_close_matches(name, [*sources.NAMES, *sources.promoted()], n=3, cutoff=0.5)
    return f"did you mean {' or '.join(alike)}?" if alike else "see agent kernels list"


def of_kernel(name: str, arch: str | None = None) -> Origin:
    """Return a shipped kernel as its ModelNew file.

    With `arch` (`90a`), the file has the code path for that architecture.

    Raises UsageError if no verdict covers that file, or if there is no path for the architecture.
    """
    own = sources.OWN_PATHS.get(name)
    if arch is not None and arch != own:
        raise UsageError(
            f"{name} has no path for {arch}; " + (f"it has one for {own}" if own else "leave out --arch")
        )
    known = manifest.load(name)
    verdicts = tuple(one for one in known.verified if _speaks_for(one, known, name, arch))
    if not verdicts:
        which = f"its file for {arch}" if arch else "its portable file"
        raise UsageError(f"no verdict speaks for {which}; `agent kernels verify {name}` makes one")
    problem = load_problem(auditing.reference(name))
    return Origin(
        name=name, problem=problem, source=sources.candidate(name, arch),
        found=f"shipped with kernelwright {__version__} and verified",
        verdict=_as_json(known, verdicts), license="apache-2.0",
        scope=tuple(f"{one.scope} (judge {one.verifier_version}, {one.date})" for one in verdicts),
        envelope=f"Its device code is made for: {'; '.join(known.envelope)}" if known.envelope else "",
    )  # fmt: skip


def _speaks_for(verdict: Verified, known: Manifest, name: str, arch: str | None) -> bool:
    """Return True if the verdict covers this file.

    A GPU judges the code path of its architecture, the emulator only the portable path.
    """
    file_of = {"cuda": sources.OWN_PATHS.get(name), "emulator": None}
    return (
        verdict.status == Status.VERIFIED
        and known.speaks_for_present(verdict)
        and file_of[verdict.executor] == arch
    )


def _as_json(known: Manifest, verdicts: tuple[Verified, ...]) -> str:
    said = {
        "status": str(Status.VERIFIED),
        "kernel": known.name,
        "version": known.version,
        "envelope": known.envelope,
        "verdicts": [one.model_dump(mode="json") for one in verdicts],
    }
    return json.dumps(said, indent=1)
