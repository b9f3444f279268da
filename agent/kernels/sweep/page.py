"""Page docs/kernels-sweep.md, rendered from the measured rows.

Write it with `python -m agent.kernels.sweep.page > docs/kernels-sweep.md`. It states only measured figures,
and the limiting resource of rows that are slower than a peer. The limits stand in bounds.json, by the row's
name.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import geometric_mean

from agent.kernels import sources
from agent.kernels.sweep import rows
from agent.kernels.sweep.rows import ENOUGH, Row, share_enough

FOLDER = Path(__file__).resolve().parents[3] / "benchmarks" / "results" / "kernels-sweep"
BOUNDS = "bounds.json"
HEAD = "page_head.md"
SUMMARY = (
    "kernel", "rows", "geometric mean", f"at least {ENOUGH}", "worst", "held back: rows", "mean",
    f"at least {ENOUGH}", "in a row: mean", f"at least {ENOUGH}",
)  # fmt: skip
BEHIND = (
    "kernel", "shape", "dtype", "setting", "ratio, 95 %", "best peer", "ours ms", "its ms",
    "in a row, us: ours, its", "what bounds it",
)  # fmt: skip
EVERY = (
    "shape", "dtype", "setting", "whose", "ratio, 95 %", "best peer", "ours ms", "of a copy",
    "error, torch's", "held back",
)  # fmt: skip


def render(folder: Path = FOLDER) -> str:
    """Return the whole page."""
    found, others = measured(folder)
    lines = [Path(__file__).with_name(HEAD).read_text(encoding="utf-8")]
    if not found:
        return "\n".join([*lines, "No row is measured yet.", ""])
    gpus = sorted({f"{row.gpu}, torch {row.torch}, CUDA {row.cuda}, driver {row.driver}" for row in found})
    dates = " to ".join(sorted({min(row.date for row in found), max(row.date for row in found)}))
    commits = ", ".join(sorted({row.commit[:7] for row in found}))
    lines += [f"On {'; '.join(gpus)}, {dates}, at {commits}."]
    lines += [f"{others} rows of other GPUs are left out.", ""] if others else [""]
    lines += [*_summary(found), "", *_behind(found, _bounds(folder)), ""]
    for kernel in sources.NAMES:
        lines += _kernel(kernel, [row for row in found if row.kernel == kernel])
    return "\n".join(lines)


def measured(folder: Path) -> tuple[list[Row], int]:
    """Return the rows of the GPU with most rows, lowest ratio first, and the number of rows of other GPUs."""
    every = [row for kernel in sources.NAMES for row in rows.load(folder, kernel).values()]
    gpus = Counter(row.gpu for row in every).most_common(1)
    found = sorted((row for row in every if row.gpu == gpus[0][0]), key=lambda row: row.ratio) if gpus else []
    return found, len(every) - len(found)


def _bounds(folder: Path) -> dict[str, str]:
    path = folder / BOUNDS
    known: dict[str, str] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return known


def _summary(found: Sequence[Row]) -> Iterator[str]:
    yield from _heads(SUMMARY)
    groups = [("**all**", list(found))]
    groups += [(kernel, [row for row in found if row.kernel == kernel]) for kernel in sources.NAMES]
    for name, of_one in groups:
        if not of_one:
            continue
        back = [row for row in of_one if row.is_held_back]
        cells = [
            name, str(len(of_one)), *_figures([row.ratio for row in of_one]), f"{of_one[0].ratio:.2f}",
            str(len(back)), *_figures([row.ratio for row in back]),
            *_figures([row.ratio_in_a_row for row in of_one if row.ratio_in_a_row is not None]),
        ]  # fmt: skip
        yield f"| {' | '.join(cells)} |"


def _heads(columns: Sequence[str]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"


def _figures(ratios: Sequence[float]) -> list[str]:
    return [f"{geometric_mean(ratios):.2f}", f"{share_enough(ratios):.1%}"] if ratios else ["", ""]


def _behind(found: Sequence[Row], bounds: dict[str, str]) -> Iterator[str]:
    behind = [row for row in found if row.ratio < ENOUGH]
    yield "## Behind\n"
    if not behind:
        yield "No row."
        return
    yield from _heads(BEHIND)
    for row in behind:
        series = [row.in_a_row_ms.get(side) for side in ("ours", row.best)]
        in_a_row = ", ".join(f"{1000 * ms:.1f}" for ms in series if ms is not None)
        cells = [
            row.kernel, str(list(row.shape)), row.dtype, row.setting, _ratio(row), row.best,
            f"{row.ours_ms.p50:.4g}", f"{row.peers_ms[row.best].p50:.4g}", in_a_row, bounds.get(row.name, ""),
        ]  # fmt: skip
        yield f"| {' | '.join(cells)} |"


def _kernel(kernel: str, found: Sequence[Row]) -> Iterator[str]:
    if not found:
        return
    yield f"## {kernel}\n"
    yield from _heads(EVERY)
    for row in found:
        share = row.copy_share
        errors = ", ".join(f"{row.errors[side][0]:.2g}" for side in ("ours", "native") if side in row.errors)
        cells = [
            str(list(row.shape)), row.dtype, row.setting, row.source, _ratio(row), row.best,
            f"{row.ours_ms.p50:.4g}", "" if share is None else f"{share:.0%}", errors,
            "yes" if row.is_held_back else "",
        ]  # fmt: skip
        yield f"| {' | '.join(cells)} |"
    yield ""


def _ratio(row: Row) -> str:
    low, high = row.ratio_ci
    return f"{row.ratio:.2f}, {low:.2f} to {high:.2f}"


if __name__ == "__main__":
    sys.stdout.write(render())
