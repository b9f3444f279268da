"""`agent eval PROBLEM CAND`: judges one candidate; exits 0 exactly when it is verified."""

from itertools import count, pairwise
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from agent import config, mend, store
from agent.cli import console, judging
from agent.errors import UsageError
from agent.records import SCHEMA_VERSION, Attempt, Candidate, Status

Address = Annotated[str, typer.Argument(metavar="PROBLEM", help="Path, shipped name or kernelbench:L/ID.")]
Mend = Annotated[
    bool,
    typer.Option(
        "--mend", help="Mend faults with one right mend, each as an attempt of its own; --json lists all."
    ),
]

EXITS = {Status.VERIFIED: 0, Status.UNSUPPORTED: 5}
"""Every other status is 1: judged and not accepted."""


def evaluate(
    problem: Address,
    candidate: Annotated[str, typer.Argument(metavar="CAND", help="A file with ModelNew, or RUN:K.")],
    executor: judging.Executor = None,
    isolation: judging.Sandbox = None,
    unchecked: judging.Unchecked = False,
    candidate_timeout: judging.Timeout = None,
    library_ops: judging.LibraryOps = None,
    backward: judging.Backward = False,
    compile_safe: judging.CompileSafe = False,
    require: Annotated[str | None, typer.Option(help="any-rank: judge other ranks and shapes too.")] = None,
    quick: judging.Quick = False,
    admit_anyway: judging.AdmitAnyway = False,
    mended: Mend = False,
    runs_dir: console.RunsDir = None,
    json: console.Json = False,
    verbose: console.Verbose = False,
    quiet: console.Quiet = False,
) -> None:
    """Judge one candidate against a reference: build it, verify it, on a GPU time it."""
    flags = {
        "executor": executor,
        "sandbox": isolation,
        "unchecked": unchecked or None,
        "candidate_timeout": candidate_timeout,
        "library_ops": library_ops,
        "runs_dir": runs_dir,
    }
    settings = config.load(flags, offline=True).settings
    requests = judging.requests(require or "", backward=backward, compile_safe=compile_safe)
    _refuse_free_form(require)
    source = _source(candidate, settings.runs_dir)
    reference = judging.tracing(problem, settings)
    judged = Candidate(problem=reference.name, source=source, origin="file")
    with console.live("preparing") as live:
        judge = judging.executor(settings, reference, live, quick=quick, requests=requests)
        judging.admit(judge, reference, admit_anyway)
        numbers = count(1)

        def attempt(candidate: Candidate) -> Attempt:
            evaluation = judge.evaluate(reference, candidate)
            return Attempt(number=next(numbers), candidate=candidate, evaluation=evaluation)

        first = attempt(judged)
        attempts = mend.line(first, attempt) if mended else (first,)
    if json:
        console.emit_json(_document(attempts) if mended else first.evaluation)
    else:
        _show(attempts)
    raise typer.Exit(EXITS.get(attempts[-1].evaluation.status, 1))


def _show(attempts: tuple[Attempt, ...]) -> None:
    """Every verdict, each mend with its diff before the verdict on it."""
    console.show(judging.verdict(attempts[0].evaluation))
    for parent, child in pairwise(attempts):
        console.show(Text(f"\n{console.line(child.candidate.note or '')}", style="bold"))
        console.show(Text(console.plain(mend.difference(parent, child))))
        console.show(judging.verdict(child.evaluation))


def _document(attempts: tuple[Attempt, ...]) -> dict[str, object]:
    return {
        "schema_version": SCHEMA_VERSION,
        "attempts": attempts,
        "diffs": [mend.difference(parent, child) for parent, child in pairwise(attempts)],
    }


def _refuse_free_form(require: str | None) -> None:
    """Raises UsageError for a requirement that nothing checks."""
    from agent import prompts

    for wish in prompts.requirements(require) if require else ():
        if not wish.checked:
            raise UsageError(f"--require {wish.text!r}: eval judges any-rank, and no other requirement")


def _source(address: str, runs_dir: Path) -> str:
    """The candidate's text. Raises UsageError when the address leads to none."""
    path = Path(address)
    if not path.exists() and ":" in address:
        return store.resolve_attempt(address, runs_dir)[1].candidate.source
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{path} is no UTF-8 text; a candidate is a Python file with ModelNew") from None
    except OSError as error:
        raise UsageError(f"cannot read candidate {path}: {error.strerror}; give a file or RUN:K") from None
