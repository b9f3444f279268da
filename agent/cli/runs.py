"""`agent runs`: what has been run, newest first."""

from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from agent import config, ranking, resources, store
from agent.cli import console
from agent.cli.verdicts import brief
from agent.records import SCHEMA_VERSION

_STATES = {"running": "cyan", "finished": "green", "damaged": "red"}


def runs(
    runs_dir: console.RunsDir = None,
    json: console.Json = False,
    verbose: console.Verbose = False,
    quiet: console.Quiet = False,
) -> None:
    """List the runs, newest first, with the best verdict of each."""
    folder = config.load({"runs_dir": runs_dir}, offline=True).settings.runs_dir
    summaries = store.list_runs(folder)
    if json:
        console.emit_json(
            {"schema_version": SCHEMA_VERSION, "runs": [export(summary) for summary in summaries]}
        )
    elif summaries:
        console.show(_table(summaries))
    else:
        shipped = sorted(f"recorded/{path.name}" for path in _recorded())
        there = f"; to look at one that is shipped: agent show {shipped[0]}" if shipped else ""
        console.show(f"no runs in {console.line(str(folder))}{there}")


def export(summary: store.RunSummary) -> dict[str, Any]:
    """One run as `agent runs --json` gives it; `best` is null until something was verified."""
    info, best = summary.info, ranking.best_of(summary.attempts, summary.finished)
    measurement = best.evaluation.measurement if best else None
    return {
        "id": summary.id,
        "path": str(summary.path),
        "state": summary.state,
        "outcome": summary.finished.outcome if summary.finished else None,
        "created": info.created if info else None,
        "problem": info.settings.problem_name if info else None,
        "provider": info.settings.provider if info else None,
        "model": info.settings.model if info else None,
        "executor": info.settings.executor if info else None,
        "rounds": {"begun": summary.rounds, "planned": info.settings.rounds if info else None},
        "attempts": len(summary.attempts),
        "best": {
            "attempt": best.number,
            "status": best.evaluation.status,
            "scope": best.evaluation.scope,
            "speedup": measurement.speedup if measurement else None,
        }
        if best
        else None,
        "damaged_lines": summary.damaged_lines,
    }


def _table(summaries: list[store.RunSummary]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    # The id stays whole, so that it can be copied; what stands below it may wrap.
    table.add_column("run", overflow="fold", width=max(len(summary.id) for summary in summaries))
    table.add_column("rounds", justify="right", no_wrap=True)
    table.add_column("best")
    table.add_column("state", no_wrap=True)
    for summary in summaries:
        asked = summary.info.settings if summary.info else None
        run = Text(console.line(summary.id))
        if asked:
            run.append(f"\n{console.line(f'{asked.problem_name}, {asked.provider}')}", style="dim")
        state = Text(summary.state, style=_STATES.get(summary.state, "yellow"))
        if summary.damaged_lines:
            state.append(f"\n{summary.damaged_lines} damaged", style="red")
        best = ranking.best_of(summary.attempts, summary.finished)
        verdict = Text(brief(best), style="green") if best else Text("-")
        table.add_row(run, f"{summary.rounds}/{asked.rounds if asked else '?'}", verdict, state)
    return table


def _recorded() -> list[Path]:
    return store.run_folders(resources.folder("recorded"))
