"""`agent run PROBLEM`: from a reference to a verified kernel."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from agent import config, ranking, sandbox, store
from agent.cli import console, judging
from agent.errors import UsageError
from agent.providers import choose
from agent.records import SCHEMA_VERSION, Problem, Request, RunFinished

if TYPE_CHECKING:
    from agent.loop import Plan
    from agent.providers.endpoint import StreamProgress

EXITS = {"verified": 0, "no_kernel": 1, "failed": 0}
"""A run that failed with something verified is solved; one without has raised."""

Flags = dict[str, object]
Address = Annotated[
    str | None, typer.Argument(metavar="[PROBLEM]", help="Path, shipped name or kernelbench:LEVEL/ID.")
]
NoMend = Annotated[
    bool,
    typer.Option(
        "--no-mend", help="Leave faults with one right mend, as a missing declaration, to the model."
    ),
]
Patience = Annotated[
    int | None, typer.Option(help="Rounds without a faster kernel that end a GPU run.", show_default="2")
]
InOrder = Annotated[
    bool, typer.Option("--in-order", help="With replay:RUN: the answers as stored, whatever the prompt.")
]


def run(
    problem: Address = None,
    provider: judging.Provider = None,
    model: Annotated[str | None, typer.Option(help="Name of the endpoint's model.")] = None,
    base_url: Annotated[str | None, typer.Option(help="Address of a Chat Completions endpoint.")] = None,
    executor: judging.Executor = None,
    isolation: judging.Sandbox = None,
    unchecked: judging.Unchecked = False,
    rounds: Annotated[int | None, typer.Option(help="Questions asked at most.", show_default="6")] = None,
    patience: Patience = None,
    require: Annotated[str | None, typer.Option(help="Your own requirements, TEXT or @FILE.")] = None,
    candidate_timeout: judging.Timeout = None,
    library_ops: judging.LibraryOps = None,
    backward: judging.Backward = False,
    compile_safe: judging.CompileSafe = False,
    in_order: InOrder = False,
    quick: judging.Quick = False,
    admit_anyway: judging.AdmitAnyway = False,
    no_mend: NoMend = False,
    resume: Annotated[str | None, typer.Option(metavar="RUN", help="Go on with a run.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the prompt, ask nobody.")] = False,
    runs_dir: console.RunsDir = None,
    json: console.Json = False,
    verbose: console.Verbose = False,
    quiet: console.Quiet = False,
) -> None:
    """Ask for kernels, judge them, feed back what was wrong, keep the best verified one."""
    if (problem is None) == (resume is None):
        raise UsageError("give either a PROBLEM or --resume RUN")
    sandbox.hide()  # this process holds the key
    flags: Flags = {
        "provider": provider, "model": model, "base_url": base_url, "executor": executor,
        "sandbox": isolation, "unchecked": unchecked or None, "rounds": rounds, "patience": patience,
        "candidate_timeout": candidate_timeout, "library_ops": library_ops, "runs_dir": runs_dir,
    }  # fmt: skip
    choices = {"in_order": in_order, "quick": quick, "admit_anyway": admit_anyway, "mend": not no_mend}
    choices |= {"backward": backward, "compile_safe": compile_safe}
    if resume is not None:
        if require or dry_run:
            raise UsageError("--resume takes the requirements of the run it goes on with")
        finished, folder = _resumed(resume, flags, choices)
    else:
        assert problem is not None
        settings = config.load(flags).settings
        if dry_run:
            _print_prompt(judging.tracing(problem, settings), settings, require or "", choices, json)
            return
        finished, folder = _begun(problem, settings, require, choices)
    _report(finished, folder, json)
    raise typer.Exit(EXITS.get(finished.outcome, 1))


def _begun(
    address: str, settings: config.Settings, require: str | None, choices: dict[str, bool]
) -> tuple[RunFinished, store.Run]:
    from agent import prompts
    from agent.cli.session import Session

    wishes = prompts.lines(require) if require else ()
    for wish in map(prompts.requirement, wishes):
        if not wish.checked:
            console.warn(f"passed on to the model, not checked: {wish.text}")
    problem = judging.tracing(address, settings)
    options: dict[str, str | int | float | bool] = {
        "require": "\n".join(wishes),
        **choices,
        "gpu": settings.gpu,
        "candidate_timeout": settings.candidate_timeout,
        "library_ops": settings.library_ops,
        "unchecked": settings.unchecked,
    }
    with console.live("preparing") as live:
        provider = choose(
            settings, problem, in_order=choices["in_order"], arch=judging.arch(settings),
            on_retry=lambda event: session.note(event), on_progress=lambda so_far: _stream(live, so_far),
        )  # fmt: skip
        requests = _requests(str(options["require"]), choices)
        judge = judging.executor(settings, problem, live, quick=choices["quick"], requests=requests)
        judging.admit(judge, problem, choices["admit_anyway"])
        plan = _plan(problem, settings, provider.name, str(options["require"]), requests)
        plan = plan.model_copy(update={"mends": choices["mend"]})
        made = store.create(
            settings.runs_dir,
            store.RunSettings(
                problem=address, problem_name=problem.name, provider=provider.name, model=settings.model,
                executor=judge.name, rounds=plan.rounds, patience=plan.patience, options=options,
            ),
        )  # fmt: skip
        with made.writer() as writer:
            session = Session(made, problem, plan, writer, live)
            console.say(f"run {made.id}: {problem.name}, provider {provider.name}, executor {judge.name}")
            return session.solve(provider, judge), made


def _resumed(address: str, flags: Flags, choices: dict[str, bool]) -> tuple[RunFinished, store.Run]:
    from agent.cli.session import Session

    folder = config.load({"runs_dir": flags["runs_dir"]}, offline=True).settings.runs_dir
    found = store.open_run(address, folder)
    asked = found.info.settings
    given = {name: value for name, value in flags.items() if value is not None}
    before: Flags = {
        "provider": asked.provider, "model": asked.model, "executor": asked.executor, "rounds": asked.rounds,
        "patience": asked.patience, "gpu": asked.options.get("gpu"),
        "candidate_timeout": asked.options.get("candidate_timeout"),
        "library_ops": asked.options.get("library_ops"),
        "unchecked": asked.options.get("unchecked"),
    }  # fmt: skip
    settings = config.load(before | given).settings
    # A run from before there were mends has made none, and goes on without.
    stored = {name: asked.options.get(name) is True for name in choices}
    choices = {name: chosen or stored[name] for name, chosen in choices.items()} | {
        "mend": choices["mend"] and stored["mend"]
    }
    log = found.read()
    if log.started is None:
        raise UsageError(f"run {found.id} stopped before it began; start it anew: agent run {asked.problem}")
    if log.finished and log.finished.outcome in ("verified", "no_kernel") and "rounds" not in given:
        console.say(f"run {found.id} has ended; more rounds with --rounds N")
        return log.finished, found
    problem = log.started.problem
    with found.writer() as writer, console.live("preparing") as live:
        provider = choose(
            settings, problem, in_order=choices["in_order"], arch=judging.arch(settings),
            on_retry=lambda event: session.note(event), on_progress=lambda so_far: _stream(live, so_far),
        )  # fmt: skip
        require = str(asked.options.get("require", ""))
        requests = _requests(require, choices)
        judge = judging.executor(settings, problem, live, quick=choices["quick"], requests=requests)
        judging.admit(judge, problem, choices["admit_anyway"])
        plan = _plan(problem, settings, provider.name, require, requests)
        plan = plan.model_copy(update={"mends": choices["mend"]})
        session = Session(found, problem, plan, writer, live, store.Resume(log))
        console.say(f"run {found.id}: going on, {len(log.rounds)} rounds are on disk")
        return session.solve(provider, judge), found


def _requests(require: str, choices: dict[str, bool]) -> tuple[Request, ...]:
    return judging.requests(require, backward=choices["backward"], compile_safe=choices["compile_safe"])


def _plan(
    problem: Problem, settings: config.Settings, provider: str, require: str, requests: tuple[Request, ...]
) -> "Plan":
    from agent import prompts
    from agent.loop import Plan

    return Plan(
        # The catalogue has one answer; asking again could not bring another.
        rounds=1 if provider == "catalogue" else settings.rounds,
        patience=settings.patience,
        requirements=prompts.wishes(require, settings.library_ops, requests),
        gpu=settings.gpu,
        floor_ms=judging.floor_ms(problem, settings),
    )


def _print_prompt(
    problem: Problem, settings: config.Settings, require: str, choices: dict[str, bool], json: bool
) -> None:
    from agent import prompts

    plan = _plan(problem, settings, "", require, _requests(require, choices))
    situation = prompts.Situation(requirements=plan.requirements, gpu=plan.gpu, floor_ms=plan.floor_ms)
    prompt = prompts.render(problem, situation)
    tokens = prompts.estimate_tokens(prompt)
    if json:
        console.emit_json({"prompt": prompt, "estimated_tokens": tokens})
        return
    for message in prompt.messages:
        console.show(Text(f"--- {message.role}", style="bold"), Text(console.plain(message.content)))
    console.say(f"about {tokens} tokens (an estimate); nobody was asked")


def _stream(live: console.Live, so_far: "StreamProgress") -> None:
    thinking = f", {so_far.reasoning_characters} of reasoning" if so_far.reasoning_characters else ""
    live.update(f"receiving: {so_far.text_characters} characters{thinking}")


def _report(finished: RunFinished, run: store.Run, json: bool) -> None:
    best = ranking.best_of(run.read().attempts, finished)
    if json:
        console.emit_json(
            {
                "schema_version": SCHEMA_VERSION, "run": run.id, "path": str(run.path),
                "outcome": finished.outcome, "reason": finished.reason, "best": best,
                "best_file": str(run.path / "best.py") if best else None,
            }
        )  # fmt: skip
        return
    if best is None:
        console.show(Text(f"{finished.reason}; what happened: agent show {run.address}"))
        return
    console.show(judging.verdict(best.evaluation), Text(f"kernel      {run.path / 'best.py'}"))
    console.show(Text(f"transcript  agent show {run.address}"))
