"""`agent show RUN`: a run's rounds as a tree, or one round in full."""

from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from agent import config, ranking, store
from agent.cli import console
from agent.cli.round_view import parts_of
from agent.cli.verdicts import STYLES, brief, times
from agent.errors import AgentError, UsageError
from agent.records import SCHEMA_VERSION, Attempt, Evaluated


def show(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="Path, id, unique prefix of one, or recorded/NAME.")
    ],
    number: Annotated[int | None, typer.Option("--round", help="Print this round in full.", min=1)] = None,
    runs_dir: console.RunsDir = None,
    json: console.Json = False,
    verbose: console.Verbose = False,
    quiet: console.Quiet = False,
) -> None:
    """Show a run's rounds, verdicts and best kernel.

    Damaged lines are reported and the rest is shown. -v unfolds the reasoning of a round.
    """
    folder = config.load({"runs_dir": runs_dir}, offline=True).settings.runs_dir
    found = store.open_run(run, folder)
    log = found.read()
    rounds = log.rounds
    if number is not None:
        rounds = tuple(entry for entry in rounds if entry.number == number)
        if not rounds:
            there = f"it has rounds 1 to {log.rounds[-1].number}" if log.rounds else "it has none"
            raise UsageError(f"run {found.address} has no round {number}; {there}")
    if json:
        console.emit_json(export(found, log, rounds))
        return
    for problem in log.problems:
        console.warn(f"events.jsonl, {problem}")
    if log.cut:
        console.warn("events.jsonl ends in the middle of an event, which is left out")
    if number is not None:
        console.show(*parts_of(rounds[0]))
    else:
        console.show(_header(found, log), Text(), _tree(rounds))


def export(run: store.Run, log: store.Log, rounds: tuple[store.Round, ...]) -> dict[str, Any]:
    """The document of `agent show --json`.

    `run` is run.toml, null when damaged. `state`, `outcome` and `reason` say how it ended. `best` is the
    number of an attempt. `rounds` holds each round's prompt, completion, rejected reply, retries and attempts
    as in the transcript, and each attempt's derived `speedup`. `damage` lists the lines that do not read.
    """
    best = ranking.best_of(log.attempts, log.finished)
    return {
        "schema_version": SCHEMA_VERSION,
        "id": run.id,
        "path": str(run.path),
        "run": _info(run),
        "state": store.state_of(run, log),
        "outcome": log.finished.outcome if log.finished else None,
        "reason": log.finished.reason if log.finished else None,
        "best": best.number if best else None,
        "rounds": [
            {
                "round": entry.number,
                "prompt": {"id": entry.prompt.id, **entry.prompt.model_dump()} if entry.prompt else None,
                "completion": entry.completion,
                "rejected": entry.rejected,
                "retries": entry.retries,
                "attempts": [_attempt(event) for event in entry.evaluated],
            }
            for entry in rounds
        ],
        "damage": [{"line": problem.line, "reason": problem.reason} for problem in log.problems],
        "cut": log.cut,
    }


def _attempt(event: Evaluated) -> dict[str, Any]:
    measurement = event.attempt.evaluation.measurement
    speedup = measurement.speedup if measurement else None
    return {**event.attempt.model_dump(), "seconds": event.seconds, "speedup": speedup}


def _info(run: store.Run) -> store.RunInfo | None:
    try:
        return run.info
    except AgentError as error:
        console.warn(str(error))
        return None


def _header(run: store.Run, log: store.Log) -> Table:
    info, best = _info(run), ranking.best_of(log.attempts, log.finished)
    rows = [("run", run.address)]
    if info:
        asked = info.settings
        model = f", {asked.model}" if asked.model else ""
        rows += [
            ("problem", asked.problem_name),
            ("provider", f"{asked.provider}{model}"),
            ("executor", asked.executor),
            ("created", f"{info.created:%Y-%m-%d %H:%M} UTC, kernelwright {info.version}"),
        ]
    state = store.state_of(run, log)
    rows.append(("state", f"{state}: {log.finished.reason}" if log.finished else state))
    rows += _best_rows(best) if best else [("best", "none verified")]
    if best and (run.path / "best.py").is_file():
        rows.append(("file", str(run.path / "best.py")))
    header = Table.grid(padding=(0, 2))
    for name, value in rows:
        header.add_row(Text(name, style="dim"), console.line(value))
    return header


def _best_rows(best: Attempt) -> list[tuple[str, str]]:
    evaluation = best.evaluation
    rows = [("best", f"attempt {best.number}, {evaluation.status} on {evaluation.scope}")]
    rows += [("", f"skipped: {check}") for check in evaluation.scope.skipped]
    return rows + ([("", times(evaluation.measurement))] if evaluation.measurement else [])


def _tree(rounds: tuple[store.Round, ...]) -> Tree:
    tree = Tree("rounds" if rounds else "no round was begun", guide_style="dim")
    for entry in rounds:
        node = tree.add(_round_line(entry))
        for retry in entry.retries:
            node.add(
                Text(
                    f"asked again after {console.duration(retry.wait_seconds)}: {console.line(retry.reason)}"
                )
            )
        if entry.rejected:
            node.add(Text(f"no candidate  {console.line(entry.rejected.text)}", style="red"))
        by_id: dict[str, Tree] = {}
        for event in entry.evaluated:
            candidate = event.attempt.candidate
            # A mend hangs under the attempt it mends; a repair by the model is a new answer of a new round.
            parent = by_id.get(candidate.parent or "", node) if candidate.origin == "mend" else node
            by_id[candidate.id] = parent.add(_attempt_line(event))
    return tree


def _round_line(entry: store.Round) -> Text:
    words = [f"round {entry.number}"]
    words += [entry.prompt.template] if entry.prompt else []
    words += [console.duration(entry.seconds)] if entry.seconds is not None else []
    if entry.completion is None:
        words.append("no answer received")
    return Text(", ".join(words))


def _attempt_line(event: Evaluated) -> Text:
    attempt, evaluation = event.attempt, event.attempt.evaluation
    head = Text(f"attempt {attempt.number} ({attempt.candidate.origin})  ")
    head.append(brief(attempt), style=STYLES.get(evaluation.status, "red"))
    if evaluation.headline:
        head.append(f"  {evaluation.headline.kind}: {console.line(evaluation.headline.message)}")
    return head
