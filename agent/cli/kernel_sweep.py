"""`agent kernels bench --sweep`: time kernels at the shapes of models, one file of rows per kernel."""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from agent.api.judge import present_architecture
from agent.cli import console
from agent.records import SCHEMA_VERSION

if TYPE_CHECKING:
    from agent.kernels.benching import Machine
    from agent.kernels.sweep.grid import Entry
    from agent.kernels.sweep.rows import Row

FOLDER = Path("kernels-sweep")
MODE = "max-autotune-no-cudagraphs"
MOST_WORKERS = 16
NEVER_S = 1e9
Wanted = Annotated[
    bool, typer.Option("--sweep", help="Time the shapes of models; skip rows that are already measured.")
]
To = Annotated[Path, typer.Option(metavar="DIR", help="With --sweep: folder of the measured rows.")]
Seconds = Annotated[
    float | None, typer.Option(min=1, help="With --sweep: stop after this long; run again to continue.")
]
Below = Annotated[
    float | None,
    typer.Option(help="With --sweep: repeat only rows whose speedup was below this."),
]
MaxAutotune = Annotated[
    bool,
    typer.Option(
        "--max-autotune",
        help="With --sweep: repeat the tenth with the lowest speedups, also against max-autotune.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(min=1, help="With --sweep: number of processes that compile.", show_default="by processors"),
]


class Choice(NamedTuple):
    """Parsed options of `agent kernels bench --sweep`."""

    names: Sequence[str]
    to: Path
    seconds: float | None
    below: float | None
    max_autotune: bool
    workers: int | None


def run(
    choice: Choice,
    here: "Machine",
    turn: Callable[[console.Live], AbstractContextManager[None]],
    json: bool,
) -> None:
    """Measure and store the rows while holding the GPU."""
    from agent.kernels import parallel
    from agent.kernels.sweep import rows, workers
    from agent.kernels.sweep.sweeping import Sweep

    deadline = time.monotonic() + (choice.seconds or NEVER_S)
    wanted = _chosen(choice, here.gpu)
    count = choice.workers or min(MOST_WORKERS, os.cpu_count() or 1)
    measured: list[Row] = []
    faults: dict[str, str] = {}
    with console.live(f"sweeping {len(wanted)} rows") as live, turn(live):
        mode = MODE if choice.max_autotune else None
        sweep = Sweep(lambda: workers.started(here), count, deadline, mode)
        try:
            for _ in parallel.libraries(
                parallel.wanted(choice.names), present_architecture(), os.cpu_count() or 1
            ):
                pass
            for answer in sweep.rows(wanted):
                if answer.row is None:
                    faults[answer.name] = answer.fault or "it was not timed"
                else:
                    rows.keep(choice.to, answer.row)
                    measured.append(answer.row)
                live.update(f"sweeping: {len(measured)} of {len(wanted)} rows")
        finally:
            sweep.end()
    if json:
        console.emit_json({"schema_version": SCHEMA_VERSION, "rows": measured, "faults": faults})
        return
    _show(measured, faults, len(wanted))


def _chosen(choice: Choice, gpu: str) -> "list[Entry]":
    """Return the rows to measure, in order."""
    from agent.kernels import manifest
    from agent.kernels.sweep import grid, rows

    known = {
        row.name: row
        for name in choice.names
        for row in rows.load(choice.to, name).values()
        if row.gpu == gpu
    }
    entries = grid.in_turn(choice.names)
    if choice.below is not None:
        behind = [one for one in entries if one.name in known and known[one.name].ratio < choice.below]
        return sorted(behind, key=lambda one: known[one.name].ratio)
    if choice.max_autotune:
        worst = sorted(known.values(), key=lambda row: row.ratio)[: -(-len(known) // 10)]
        named = {row.name for row in worst if MODE not in row.peers_ms}
        return [one for one in entries if one.name in named]
    files = {name: manifest.fingerprint(name) for name in choice.names}
    present = {name for name, row in known.items() if row.files == files[row.kernel]}
    return [one for one in entries if one.name not in present]


def _show(measured: "list[Row]", faults: dict[str, str], wanted: int) -> None:
    from statistics import geometric_mean

    from agent.kernels.sweep.rows import ENOUGH, share_enough

    for row in sorted(measured, key=lambda one: one.ratio, reverse=True):
        low, high = row.ratio_ci
        console.show(
            f"{row.ratio:.2f} ({low:.2f} to {high:.2f}) times as fast as {row.best}, "
            f"{row.ours_ms.p50:.4g} ms: {row.name}"
        )
    for name, why in faults.items():
        console.show(f"not measured: {name}: {console.line(why)}")
    ratios = [row.ratio for row in measured]
    if measured:
        console.show(
            f"{len(measured)} of {wanted} rows: {geometric_mean(ratios):.2f} times as fast as the best "
            f"peer in the geometric mean, at least {ENOUGH} in {share_enough(ratios):.1%}"
        )
