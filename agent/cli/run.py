"""`agent run PROBLEM`: search for a verified kernel for a reference."""

from typing import Annotated, NamedTuple

import typer
from rich.text import Text

from agent import config
from agent.api import Checks, Run, load_problem, render_prompt
from agent.api import solving as api
from agent.api.choices import Choices
from agent.cli import console, judging, settings_options
from agent.cli.telling import telling
from agent.errors import BudgetExceeded, UsageError
from agent.records import SCHEMA_VERSION, Prompt

EXITS = {"verified": 0, "no_kernel": 1, "failed": 0, "budget": BudgetExceeded.exit_code}
"""Exit code by outcome.

A run that failed after verifying a kernel counts as solved. One that failed with nothing verified has raised.
"""

Flags = dict[str, object]
Address = Annotated[
    str | None,
    typer.Argument(metavar="PROBLEM", help="Path, shipped name or kernelbench:LEVEL/ID of the reference."),
]
NoMend = Annotated[
    bool,
    typer.Option("--no-mend", help="Disable automatic fixes such as adding a missing declaration."),
]
Patience = Annotated[
    int | None,
    typer.Option(help="Stop a GPU run after this many rounds without a faster kernel.", show_default="2"),
]
InOrder = Annotated[
    bool,
    typer.Option(
        "--in-order", help="With replay:RUN: replay the stored answers in order and ignore the prompts."
    ),
]
NoWait = Annotated[
    bool, typer.Option("--no-wait", help="With mailbox:DIR: exit with 75 once only answers are missing.")
]
FromComposed = Annotated[
    bool,
    typer.Option("--from-composed", help="Start from a composed kernel and ask the model to improve it."),
]
Rounds = Annotated[int | None, typer.Option(help="Maximum number of model rounds.", show_default="6")]
Require = Annotated[
    str | None, typer.Option(help="Additional requirements for the kernel, as TEXT or @FILE.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the prompt without calling the model.")]


@settings_options.taking(
    "search",
    "samples",
    "width",
    "plan",
    "parallel",
    "max_tokens",
    "max_cost",
    "max_time",
    "max_gpu_time",
    "good_enough",
    "confirm",
    after="patience",
)
@settings_options.taking("candidate_timeout", "library_ops", "baselines", "gpu", after="require")
@settings_options.taking(
    "model", "base_url", "api", "reasoning_effort", "seed", "stop", "extra_body", after="provider"
)
def run(
    problem: Address = None,
    provider: judging.Provider = None,
    executor: judging.Executor = None,
    isolation: judging.Sandbox = None,
    unchecked: judging.Unchecked = False,
    rounds: Rounds = None,
    patience: Patience = None,
    require: Require = None,
    backward: judging.Backward = False,
    compile_safe: judging.CompileSafe = False,
    in_order: InOrder = False,
    quick: judging.Quick = False,
    admit_anyway: judging.AdmitAnyway = False,
    no_mend: NoMend = False,
    no_wait: NoWait = False,
    from_composed: FromComposed = False,
    resume: Annotated[str | None, typer.Option(metavar="RUN", help="Continue an interrupted run.")] = None,
    dry_run: DryRun = False,
    runs_dir: console.RunsDir = None,
    json: console.Json = False,
    verbose: console.Verbose = False,
    quiet: console.Quiet = False,
    *,
    given: Flags,
) -> None:
    """Ask a model for kernels, judge them, report faults back, and keep the best verified kernel."""
    if (problem is None) == (resume is None):
        raise UsageError("give either a PROBLEM or --resume RUN, not both")
    flags = given | {
        "provider": provider, "executor": executor,
        "sandbox": isolation, "unchecked": unchecked or None, "rounds": rounds, "patience": patience,
        "runs_dir": runs_dir,
    }  # fmt: skip
    checks = Checks(quick=quick, backward=backward, compile_safe=compile_safe, admit_anyway=admit_anyway)
    choices = Choices(
        require=require or "", autofix=not no_mend, in_order=in_order, no_wait=no_wait,
        from_composed=from_composed,
    )  # fmt: skip
    asked = Asked(flags, checks, choices)
    if dry_run and resume is None:
        _print_prompt(_prompt(str(problem), asked), json)
        return
    raise typer.Exit(_report(_carried(problem, resume, asked, dry_run), json))


class Asked(NamedTuple):
    """Parsed options of `agent run`."""

    flags: Flags
    checks: Checks
    choices: Choices


def _carried(problem: str | None, resume: str | None, asked: Asked, dry_run: bool) -> Run:
    if resume is None:
        settings = config.load(asked.flags).settings
        with telling(f"tracing {problem}") as told:
            return api.begin(str(problem), settings, asked.checks, asked.choices, told)
    if asked.choices.require or dry_run:
        raise UsageError("--resume keeps the requirements of its run; leave out --require and --dry-run")
    with telling() as told:
        return api.resume(
            resume, flags=asked.flags, checks=asked.checks, choices=asked.choices, progress=told
        )


def _prompt(problem: str, asked: Asked) -> Prompt:
    settings = config.load(asked.flags).settings
    with telling(f"tracing {problem}") as told:
        reference = load_problem(problem, kernelbench_root=settings.kernelbench_root, progress=told)
    return render_prompt(reference, require=asked.choices.require, checks=asked.checks, settings=settings)


def _print_prompt(prompt: Prompt, json: bool) -> None:
    from agent import prompts

    tokens = prompts.estimate_tokens(prompt)
    if json:
        console.emit_json({"prompt": prompt, "estimated_tokens": tokens})
        return
    for message in prompt.messages:
        console.show(Text(f"--- {message.role}", style="bold"), Text(console.plain(message.content)))
    console.say(f"about {tokens} tokens (estimated); no model was called")


def _report(run: Run, json: bool) -> int:
    """Print how the run ended and return the exit code."""
    best, finished = run.best, run.finished
    assert finished is not None
    if json:
        console.emit_json(
            {
                "schema_version": SCHEMA_VERSION, "run": run.id, "path": str(run.path),
                "outcome": finished.outcome, "reason": finished.reason, "best": best,
                "best_file": str(run.best_file) if best else None,
            }
        )  # fmt: skip
    elif best is None:
        console.show(Text(f"{finished.reason}; for details, run: agent show {run.address}"))
    else:
        console.show(judging.verdict(best.evaluation), Text(f"kernel      {run.best_file}"))
        console.show(Text(f"transcript  agent show {run.address}"))
    return EXITS.get(finished.outcome, 1)
