"""`agent eval PROBLEM CAND`: judge one candidate and exit with 0 only if it is verified."""

from itertools import count, pairwise
from typing import Annotated

import typer
from rich.text import Text

from agent import config, mend
from agent.api import Checks, Judge
from agent.api.checks import with_requirements
from agent.api.judge import candidate_source
from agent.cli import columns, console, judging
from agent.cli.telling import telling
from agent.errors import UsageError
from agent.records import SCHEMA_VERSION, Attempt, Candidate, Status

Address = Annotated[
    str,
    typer.Argument(metavar="PROBLEM", help="Path, shipped name or kernelbench:LEVEL/ID of the reference."),
]
CandidateAddress = Annotated[
    str,
    typer.Argument(metavar="CAND", help="A file that defines ModelNew, or RUN:K for attempt K of a run."),
]
Mend = Annotated[
    bool,
    typer.Option(
        "--mend", help="Fix faults that have exactly one fix, then judge again; --json lists all attempts."
    ),
]

Timings = Annotated[
    bool, typer.Option("--timings", help="Also show how long each phase took; --json always has it.")
]

Require = Annotated[
    str | None,
    typer.Option(
        help="any-rank: also judge other ranks and shapes. confirmed: on a GPU, accept only after a complete "
        "second look."
    ),
]

NoConfirm = Annotated[
    bool,
    typer.Option(
        "--no-confirm", help="On a GPU, skip the second look at a verified candidate; the verdict says so."
    ),
]

EXITS = {Status.VERIFIED: 0, Status.UNSUPPORTED: 5}
"""Exit code by status. Every other status gives 1: judged and not accepted."""


def evaluate(
    problem: Address,
    candidate: CandidateAddress,
    executor: judging.Executor = None,
    isolation: judging.Sandbox = None,
    unchecked: judging.Unchecked = False,
    candidate_timeout: judging.Timeout = None,
    library_ops: judging.LibraryOps = None,
    baselines: judging.Baselines = None,
    backward: judging.Backward = False,
    compile_safe: judging.CompileSafe = False,
    require: Require = None,
    quick: judging.Quick = False,
    admit_anyway: judging.AdmitAnyway = False,
    mended: Mend = False,
    no_confirm: NoConfirm = False,
    timings: Timings = False,
    runs_dir: console.RunsDir = None,
    json: console.Json = False,
    verbose: console.Verbose = False,
    quiet: console.Quiet = False,
) -> None:
    """Judge one candidate against a reference: build it, verify it and, on a GPU, time it.

    Exits 0 if it is verified, 1 if it is not accepted, 5 if this executor cannot judge it.
    """
    flags = {
        "executor": executor, "sandbox": isolation, "unchecked": unchecked or None, "runs_dir": runs_dir,
        "candidate_timeout": candidate_timeout, "library_ops": library_ops, "baselines": baselines,
    }  # fmt: skip
    _refuse_free_form(require)
    checks = Checks(quick=quick, backward=backward, compile_safe=compile_safe, admit_anyway=admit_anyway)
    checks = with_requirements(checks.model_copy(update={"confirm": not no_confirm}), require or "")
    settings = config.load(flags, offline=True).settings
    candidate_source(candidate, settings.runs_dir)  # report a wrong address before the slow tracing
    with telling(f"tracing {problem}") as told:
        judge = Judge(problem, checks=checks, progress=told, settings=settings)
        judged = judge.candidate(candidate)
        numbers = count(1)

        def attempt(candidate: Candidate) -> Attempt:
            return Attempt(number=next(numbers), candidate=candidate, evaluation=judge.evaluate(candidate))

        first = attempt(judged)
        attempts = mend.line(first, attempt) if mended else (first,)
    if json:
        console.emit_json(_document(attempts) if mended else first.evaluation)
    else:
        _show(attempts, timings)
    raise typer.Exit(EXITS.get(attempts[-1].evaluation.status, 1))


def _show(attempts: tuple[Attempt, ...], timings: bool) -> None:
    """Print every verdict, each mend's diff before its verdict, and with `timings` the phases."""
    console.show(judging.verdict(attempts[0].evaluation))
    for parent, child in pairwise(attempts):
        console.show(Text(f"\n{console.line(child.candidate.note or '')}", style="bold"))
        console.show(Text(console.plain(mend.difference(parent, child))))
        console.show(judging.verdict(child.evaluation))
    for attempt in attempts if timings else ():
        phases = attempt.evaluation.phases
        rows = [(phase.name, f"{phase.seconds:.2f}") for phase in phases]
        rows.append(("in all", f"{sum(phase.seconds for phase in phases):.2f}"))
        console.show_lines(columns.lines(("phase", "seconds"), rows, console.stdout().width, right=(1,)))


def _document(attempts: tuple[Attempt, ...]) -> dict[str, object]:
    return {
        "schema_version": SCHEMA_VERSION,
        "attempts": attempts,
        "diffs": [mend.difference(parent, child) for parent, child in pairwise(attempts)],
    }


def _refuse_free_form(require: str | None) -> None:
    """Raise UsageError for a requirement that no check covers."""
    from agent import prompts

    for wish in prompts.requirements(require) if require else ():
        if not wish.checked:
            raise UsageError(f"--require {wish.text!r}: eval checks only any-rank and confirmed")
