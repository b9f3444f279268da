"""`agent runs`: what has been run, chosen and ordered; checking, indexing and deleting it."""

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from agent import config, resources, store
from agent.cli import console, runs_table, upkeep
from agent.errors import UsageError
from agent.records import SCHEMA_VERSION, Status
from agent.store import selection

_MANY = 200
"""Runs that take seconds to read; below that nothing is said."""

Problem = Annotated[str | None, typer.Option(metavar="TEXT", help="Only problems whose name has this in it.")]
States = Annotated[
    list[str] | None,
    typer.Option("--status", metavar="STATUS", help=f"Only {', '.join(selection.STATUSES)}; repeatable."),
]
Provider = Annotated[str | None, typer.Option(metavar="TEXT", help="Only providers or models with this.")]
Since = Annotated[
    str | None, typer.Option(metavar="WHEN", help="Only from then on: 2026-11-20, or an age: 30d, 12h.")
]
Until = Annotated[str | None, typer.Option(metavar="WHEN", help="Only those before.")]
By = Annotated[selection.Order, typer.Option("--sort", help="Most, fastest, dearest or newest first.")]
Reindex = Annotated[bool, typer.Option("--reindex", help="Read every transcript anew into the index.")]
Verify = Annotated[bool, typer.Option("--verify", help="Derive every hash anew; exit 1 where one differs.")]
Prune = Annotated[bool, typer.Option("--prune", help="Delete the runs that the options choose.")]
Keep = Annotated[int | None, typer.Option(min=0, help="With --prune: keep the newest N of those chosen.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="With --prune: only say what would be deleted.")]


def runs(
    problem: Problem = None,
    status: States = None,
    provider: Provider = None,
    since: Since = None,
    until: Until = None,
    sort: By = selection.Order.DATE,
    reindex: Reindex = False,
    verify: Verify = False,
    prune: Prune = False,
    keep: Keep = None,
    dry_run: DryRun = False,
    runs_dir: console.RunsDir = None,
    json: console.Json = False,
    verbose: console.Verbose = False,
    quiet: console.Quiet = False,
) -> None:
    """List the runs, newest first, with the best verdict of each; the options choose which.

    --prune never deletes a recorded or a running run.
    """
    if sum((reindex, verify, prune)) > 1:
        raise UsageError("--reindex, --verify and --prune are given one at a time")
    if not prune and (keep is not None or dry_run):
        raise UsageError("--keep and --dry-run belong to --prune")
    chosen = selection.Selection(
        problem=problem,
        statuses=selection.check_statuses(status or ()),
        provider=provider,
        since=selection.moment(since) if since else None,
        until=selection.moment(until) if until else None,
    )
    if prune and keep is None and chosen.is_everything:
        raise UsageError("--prune wants to know which runs: --until 30d, --keep 100 or --status killed")
    folder = config.load({"runs_dir": runs_dir}, offline=True).settings.runs_dir
    found = _found(folder, chosen, reindex)
    if verify or prune:
        folders = [store.Run(_path(run, folder), run.address) for run in found]
        raise typer.Exit(
            upkeep.verify(folders, json) if verify else upkeep.prune(folders[keep or 0 :], json, dry=dry_run)
        )
    summaries = selection.ordered(found, sort)
    if json:
        documents = [export(summary, folder) for summary in summaries]
        console.emit_json({"schema_version": SCHEMA_VERSION, "runs": documents})
    elif summaries:
        console.show_lines(runs_table.lines(summaries, console.stdout().width))
    else:
        console.show(_nothing(folder, chosen))


def export(summary: store.RunSummary, folder: Path) -> dict[str, Any]:
    """One run as `agent runs --json` gives it; `best` is null until something was verified."""
    best = summary.best
    return {
        "id": summary.id,
        "path": str(_path(summary, folder)),
        "state": summary.state,
        "outcome": summary.outcome,
        "reason": summary.reason,
        "created": summary.created,
        "problem": summary.problem,
        "provider": summary.provider,
        "model": summary.model,
        "executor": summary.executor,
        "rounds": {"begun": summary.rounds, "planned": summary.planned_rounds},
        "attempts": summary.attempts,
        "best": {"status": Status.VERIFIED, **best.model_dump()} if best else None,
        "tokens": {
            "input": summary.input_tokens,
            "output": summary.output_tokens,
            "partial": summary.partial,
        },
        "cost_usd": summary.cost_usd,
        "seconds": summary.seconds,
        "damaged_lines": summary.damaged_lines,
    }


def _found(folder: Path, chosen: selection.Selection, anew: bool) -> list[store.RunSummary]:
    """The runs that were chosen, newest first; the shipped ones only where the status asks for them."""
    with ExitStack() as stack:
        shown: list[console.Live] = []

        def progress(done: int, total: int) -> None:
            if total < _MANY:
                return
            if not shown:
                shown.append(stack.enter_context(console.live("reading the runs")))
            shown[0].update("reading the runs", done, total)

        listed = store.list_runs(folder, progress, anew=anew)
    if anew:
        console.say(f"indexed {len(listed):,} runs")
    shipped = store.recorded_runs() if "recorded" in chosen.statuses else []
    here = {run.id for run in listed if run.state == "recorded"}
    return store.newest_first(
        selection.select([*listed, *(run for run in shipped if run.id not in here)], chosen)
    )


def _path(summary: store.RunSummary, folder: Path) -> Path:
    return folder / summary.id if summary.address == summary.id else resources.folder("recorded") / summary.id


def _nothing(folder: Path, chosen: selection.Selection) -> str:
    if not chosen.is_everything:
        return f"no runs in {console.line(str(folder))} that the options choose"
    shipped = [run.address for run in store.recorded_runs()]
    there = f"; to look at one that is shipped: agent show {shipped[0]}" if shipped else ""
    return f"no runs in {console.line(str(folder))}{there}"
