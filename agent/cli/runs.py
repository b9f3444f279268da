"""`agent runs`: list, filter, sort, verify, index and delete runs."""

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
"""Show a progress bar from this many runs, which take seconds to read."""

Problem = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Only runs whose problem name contains TEXT.")
]
States = Annotated[
    list[str] | None,
    typer.Option(
        "--status",
        metavar="STATUS",
        help=f"Only runs with this status: {', '.join(selection.STATUSES)}; repeatable.",
    ),
]
Provider = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Only runs whose provider or model contains TEXT.")
]
Since = Annotated[
    str | None,
    typer.Option(
        metavar="WHEN", help="Only runs created at or after a date (2026-11-20) or an age (30d, 12h)."
    ),
]
Until = Annotated[str | None, typer.Option(metavar="WHEN", help="Only runs created before a date or an age.")]
By = Annotated[selection.Order, typer.Option("--sort", help="Sort key; the highest or newest comes first.")]
Reindex = Annotated[bool, typer.Option("--reindex", help="Rebuild the index from all transcripts.")]
Verify = Annotated[bool, typer.Option("--verify", help="Recompute all hashes; exit 1 on a mismatch.")]
Prune = Annotated[bool, typer.Option("--prune", help="Delete the selected runs.")]
Keep = Annotated[
    int | None, typer.Option(min=0, help="With --prune: keep the newest N of the selected runs.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="With --prune: list what would be deleted without deleting it.")
]


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
    """List runs with their best verdicts, newest first; the options filter the list.

    --prune never deletes recorded runs or runs in progress.
    """
    if sum((reindex, verify, prune)) > 1:
        raise UsageError("use only one of --reindex, --verify and --prune")
    if not prune and (keep is not None or dry_run):
        raise UsageError("--keep and --dry-run need --prune")
    chosen = selection.Selection(
        problem=problem,
        statuses=selection.check_statuses(status or ()),
        provider=provider,
        since=selection.moment(since) if since else None,
        until=selection.moment(until) if until else None,
    )
    if prune and keep is None and chosen.is_everything:
        raise UsageError("--prune needs a filter, such as --until 30d, --keep 100 or --status killed")
    folder = config.load({"runs_dir": runs_dir}, offline=True).settings.runs_dir
    found = _found(folder, chosen, reindex)
    if verify or prune:
        folders = [store.Run(_path(run, folder), run.address) for run in found]
        raise typer.Exit(
            upkeep.verify(folders, json) if verify else upkeep.prune(folders[keep or 0 :], json, dry=dry_run)
        )
    summaries = selection.ordered(found, sort)
    _list(summaries, folder, chosen, json)


def _list(summaries: list[store.RunSummary], folder: Path, chosen: selection.Selection, json: bool) -> None:
    if json:
        documents = [export(summary, folder) for summary in summaries]
        spent = runs_table.spent(summaries)._asdict()
        console.emit_json({"schema_version": SCHEMA_VERSION, "runs": documents, "spent": spent})
    elif summaries:
        console.show_lines(runs_table.lines(summaries, console.stdout().width))
        if together := runs_table.together(summaries):
            console.say(together)
    else:
        console.show(_nothing(folder, chosen))


def export(summary: store.RunSummary, folder: Path) -> dict[str, Any]:
    """Return one run as printed by `agent runs --json`; `best` is null while nothing is verified."""
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
    """Return the selected runs, newest first. Shipped runs are included only for status `recorded`."""
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
        return f"no runs in {console.line(str(folder))} match the filters"
    shipped = [run.address for run in store.recorded_runs()]
    there = f"; to see a recorded run: agent show {shipped[0]}" if shipped else ""
    return f"no runs in {console.line(str(folder))}{there}"
