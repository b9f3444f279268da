"""`agent show RUN`: show a run as a tree, or one of its rounds, prompts or diffs in full."""

from typing import Annotated

import typer
from rich.text import Text

from agent import config, store
from agent.cli import console, diff_view, run_tree
from agent.cli.follow import follow as follow_run
from agent.cli.round_view import parts_of
from agent.errors import AgentError, UsageError
from agent.records import SCHEMA_VERSION, Attempt
from agent.store import export, history
from agent.store.log import attempt_numbers

Number = Annotated[int | None, typer.Option("--round", help="Print this round in full.", min=1)]
Asked = Annotated[
    int | None, typer.Option("--prompt", help="Print the prompt of this round as it was sent.", min=1)
]
Pair = Annotated[
    tuple[int, int] | None,
    typer.Option("--diff", metavar="A B", help="Show the diff between the sources of two attempts."),
]
Follow = Annotated[
    bool,
    typer.Option("--follow", help="Print events until the run ends; Ctrl-C stops watching, not the run."),
]


def show(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="Path, id, unique prefix of an id, or recorded/NAME.")
    ],
    number: Number = None,
    prompt: Asked = None,
    diff: Pair = None,
    follow: Follow = False,
    runs_dir: console.RunsDir = None,
    json: console.Json = False,
    verbose: console.Verbose = False,
    quiet: console.Quiet = False,
) -> None:
    """Show a run's attempts with their verdicts and causes, and its best kernel.

    Damaged lines of the transcript are reported and left out. With --round, -v also prints the model's
    reasoning.
    """
    given = [name for name, value in (("--round", number), ("--prompt", prompt), ("--diff", diff)) if value]
    given += ["--follow"] if follow else []
    if len(given) > 1:
        raise UsageError(f"{given[0]} and {given[1]} cannot be combined; give one of them")
    if follow and json:
        raise UsageError("--follow and --json cannot be combined; give one of them")
    folder = config.load({"runs_dir": runs_dir}, offline=True).settings.runs_dir
    found = store.open_run(run, folder)
    if follow:
        follow_run(found)
        return
    log = found.read()
    if diff:
        _diff(found, log, diff, json)
    elif prompt is not None:
        _prompt(found, _round(found, log, prompt), json)
    elif json:
        _document(found, log, number)
    else:
        _warn(log)
        if number is not None:
            console.show(*parts_of(_round(found, log, number)))
        else:
            told = history.build_history(log)
            info = _info(found)
            console.show(run_tree.header(found, info, log, told), Text(), run_tree.tree(log.rounds, told))


def _document(run: store.Run, log: store.Log, number: int | None) -> None:
    _info(run)
    whole = export.document(run, log, history.build_history(log))
    if number is not None:
        _round(run, log, number)
        whole = whole.model_copy(
            update={"rounds": tuple(entry for entry in whole.rounds if entry.round == number)}
        )
    console.emit_json(whole)


def _prompt(run: store.Run, entry: store.Round, json: bool) -> None:
    """Print the messages of one round's prompt, each below its role."""
    if entry.prompt is None:
        raise UsageError(
            f"the prompt of round {entry.number} of run {run.address} cannot be read; "
            "agent runs --verify says why"
        )
    if json:
        sent = {"id": entry.prompt.id, **entry.prompt.model_dump()}
        console.emit_json({"schema_version": SCHEMA_VERSION, "round": entry.number, "prompt": sent})
        return
    for message in entry.prompt.messages:
        console.show(Text(f"--- {message.role}", style="bold"), Text(console.readable(message.content)))


def _diff(run: store.Run, log: store.Log, pair: tuple[int, int], json: bool) -> None:
    old, new = (_attempt(run, log, number) for number in pair)
    if json:
        change = history.change(old.candidate.source, new.candidate.source)
        console.emit_json(
            {"schema_version": SCHEMA_VERSION, "from": old.number, "to": new.number, "change": change,
             "lines": diff_view.compare(old, new)}
        )  # fmt: skip
    else:
        console.show_lines(diff_view.lines(old, new, run.address))


def _attempt(run: store.Run, log: store.Log, number: int) -> Attempt:
    for attempt in log.attempts:
        if attempt.number == number:
            return attempt
    numbers = attempt_numbers(log.attempts)
    raise UsageError(f"run {run.address} has no attempt {number}; it has: {numbers}")


def _round(run: store.Run, log: store.Log, number: int) -> store.Round:
    rounds = log.rounds
    for entry in rounds:
        if entry.number == number:
            return entry
    there = f"it has rounds 1 to {rounds[-1].number}" if rounds else "it has no rounds"
    raise UsageError(f"run {run.address} has no round {number}; {there}")


def _warn(log: store.Log) -> None:
    for problem in log.problems:
        console.warn(f"events.jsonl, {problem}")
    if log.cut:
        console.warn("events.jsonl ends in the middle of an event, which is ignored")


def _info(run: store.Run) -> store.RunInfo | None:
    try:
        return run.info
    except AgentError as error:
        console.warn(str(error))
        return None
