"""Renders docs/composer-kernelbench.md and its plot from the document; a test compares."""

import re
from collections import Counter
from math import log
from statistics import geometric_mean
from typing import Any

from tests.foreign.documents import ROOT, Entry

PAGE = ROOT / "docs" / "composer-kernelbench.md"
PLOT = ROOT / "docs" / "composer-kernelbench.svg"
RIVALS = ("eager", "compile", "max-autotune")
LEFT, WIDE, ROW = 90, 560, 15
"""Of the plot, in pixels."""
LOWEST, HIGHEST = 0.25, 16.0
HEAD = """\
# The composer on KernelBench

Rendered by `python -m benchmarks.composer page` from what its `compose`, `judge` and `time` wrote to
`benchmarks/results/composer/kernelbench.json`; a test compares. The problems are those of a local checkout
(commit 423217d), of which only figures are kept: every fifth of levels 1 and 2 and all of level 3 by rule,
others where they were run. *ratio* is the best of torch (eager, `torch.compile`, and its `max-autotune`
where that was run) over the composed file: medians of one run in turns, TF32 off, the L2 cache overwritten
before each call, on the *card* that is named; times of two cards are not to be compared. *error* is the norm
of the difference to torch's result, relative to the result's. Kernels were built and references compiled
beside other problems; nothing else ran on the GPU while one was timed.

The file of a problem is what `agent run` answers without an endpoint: a shipped kernel where one matches the
whole reference, else a composed one; on the GPU with the shipped products and convolutions as parts
(`--arch 90a`), on the emulator with torch's.

A verdict is the judge's, on the emulator at sizes that it can afford and on a GPU at the problem's own. Where
the composed file changed after a part was recorded, the part is marked `*`: it is of an earlier file.

![ratios](composer-kernelbench.svg)
"""


def write(entries: dict[str, Entry], own: dict[str, Entry]) -> None:
    """The page and the plot; `own`: the entries of files in which no product is torch's."""
    PAGE.write_text(render(list(entries.values()), list(own.values())), encoding="utf-8")
    PLOT.write_text(plot(list(entries.values())), encoding="utf-8")


OWN_HEAD = """\
## Under `--library-ops none`

No operator of torch's computes: products and convolutions are the shipped ones by their portable path, or
kernels like any other where memory bounds them. Rendered from `benchmarks/results/composer/none.json`, which
`python -m benchmarks.composer judge --library-ops none --executor emulator --quick --only level1` writes.
*not run*: kernels that the problem's own sizes launch and no judged size does, as the verdict's scope names
them. For sm_90 a file holds the path of the tensor cores beside the portable one (`--arch 90a`); how fast
that is only a GPU says.
"""


def render(entries: list[Entry], own: list[Entry] | None = None) -> str:
    """The page; `own`: of files in which no product is torch's."""
    lines = [HEAD]
    levels = sorted({_level(entry) for entry in entries})
    lines += [
        "| | problems | composed | verified on the emulator | verified on a GPU | timed | 1.0x or better "
        "| geometric mean |"
    ]
    lines += ["|---|---|---|---|---|---|---|---|"]
    lines += [_summary(level, [entry for entry in entries if _level(entry) == level]) for level in levels]
    lines += ["", *_machines(entries)]
    for level in levels:
        lines += ["", f"## {level}", "", table([entry for entry in entries if _level(entry) == level])]
    lines += ["", *_own(own)] if own else []
    return "\n".join([*lines, ""])


def _own(entries: list[Entry]) -> list[str]:
    lines = [OWN_HEAD, "| | problems | composed | verified on the emulator |", "|---|---|---|---|"]
    for level in sorted({_level(entry) for entry in entries}):
        of_level = [entry for entry in entries if _level(entry) == level]
        composed = sum(entry.get("composed", {}).get("said") == "" for entry in of_level)
        lines.append(_cells([level, str(len(of_level)), str(composed), _verified(of_level, "emulator")]))
    lines += ["", "| problem | composed | emulator | not run | date |", "|---|---|---|---|---|"]
    for entry in entries:
        said = _said(entry, "emulator")
        not_run = ", ".join(said.get("unexercised", []))
        reason = entry.get("composed", {}).get("said", "")
        cells = [entry["id"], reason or "yes", _verdict(entry, "emulator"), not_run, said.get("date", "")]
        lines.append(_cells(cells))
    return lines


def table(entries: list[Entry]) -> str:
    """A row for each problem."""
    head = ("problem", "composed", "emulator", "GPU", "composed ms", *RIVALS, "card", "ratio", "error")
    return "\n".join([_cells(list(head)), "|---" * len(head) + "|", *map(_row, entries)])


def ratio(entry: Entry) -> float | None:
    """The best of torch's times over the composed file's; None where that has none."""
    times = _said(entry, "times").get("times") or {}
    rivals = [times[name] for name in RIVALS if name in times]
    return min(rivals) / times["composed"] if rivals and "composed" in times else None


def plot(entries: list[Entry]) -> str:
    """A point for each problem, on a logarithmic scale."""
    points = [(entry["id"], found) for entry in entries if (found := ratio(entry)) is not None]
    points.sort(key=lambda point: (point[0].partition("/")[0], -point[1]))
    high = ROW * (len(points) + 3)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDE + 70}" height="{high}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{LEFT + WIDE + 70}" height="{high}" fill="white"/>',
    ]
    for tick in (0.25, 0.5, 1, 2, 4, 8, 16):
        x = _x(tick)
        colour = "#444" if tick == 1 else "#ddd"
        lines.append(f'<line x1="{x}" y1="{ROW}" x2="{x}" y2="{high - ROW}" stroke="{colour}"/>')
        lines.append(f'<text x="{x}" y="{ROW - 3}" text-anchor="middle" fill="#444">{tick:g}x</text>')
    for number, (name, value) in enumerate(points):
        y = ROW * (number + 2)
        colour = "#1a7f37" if value >= 1 else "#b35900"
        lines.append(f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{name}</text>')
        lines.append(f'<line x1="{_x(1)}" y1="{y}" x2="{_x(value)}" y2="{y}" stroke="{colour}"/>')
        lines.append(f'<circle cx="{_x(value)}" cy="{y}" r="4" fill="{colour}"/>')
        lines.append(f'<text x="{_x(max(value, 1)) + 8}" y="{y + 4}" fill="#444">{value:.2f}</text>')
    return "\n".join([*lines, "</svg>", ""])


def _x(value: float) -> float:
    share = log(min(max(value, LOWEST), HIGHEST) / LOWEST) / log(HIGHEST / LOWEST)
    return round(LEFT + WIDE * share, 1)


def _level(entry: Entry) -> str:
    return str(entry["id"]).partition("/")[0]


def _said(entry: Entry, part: str) -> dict[str, Any]:
    said = entry.get(part, {}).get("said")
    return said if isinstance(said, dict) else {}


def _summary(level: str, entries: list[Entry]) -> str:
    composed = [entry for entry in entries if entry.get("composed", {}).get("said") == ""]
    found = [value for entry in entries if (value := ratio(entry)) is not None]
    cells = [
        level,
        str(len(entries)),
        str(len(composed)),
        _verified(entries, "emulator"),
        _verified(entries, "cuda"),
    ]
    share = f"{sum(value >= 1 for value in found)} of {len(found)}" if found else "-"
    mean = f"{geometric_mean(found):.2f}x" if found else "-"
    return _cells([*cells, str(len(found)), share, mean])


def _verified(entries: list[Entry], where: str) -> str:
    status = Counter(_said(entry, where)["status"] for entry in entries if where in entry)
    return f"{status['verified']} of {status.total()} judged" if status else "-"


def _machines(entries: list[Entry]) -> list[str]:
    found = {
        f"- Timed on {said['date']}: {said['gpu']}, torch {said['torch']}, {said['nvcc']}."
        for entry in entries
        if "gpu" in (said := _said(entry, "times"))
    }
    return sorted(found)


def _row(entry: Entry) -> str:
    reason = entry.get("composed", {}).get("said", "")
    times = _said(entry, "times")
    known = times.get("times") or {}
    value = ratio(entry)
    why = times.get("failed") or (times.get("notes") or {}).get("composed")
    shown = f"{value:.2f}" if value else (f"none: {why.splitlines()[0][:100]}" if why else "")
    card = re.findall(r"[A-Z]+\d+", times.get("gpu", ""))
    error = f"{times['error']:.0e}" if times.get("error") is not None else ""
    return _cells(
        [
            entry["id"], reason or "yes", _verdict(entry, "emulator"), _verdict(entry, "cuda"),
            *(f"{known[name]:.3f}" if name in known else "" for name in ("composed", *RIVALS)),
            card[0] if card else "", shown + _mark(entry, "times"), error,
        ]
    )  # fmt: skip


def _verdict(entry: Entry, where: str) -> str:
    said = _said(entry, where)
    if not said:
        return ""
    right = said["status"] == "verified"
    words = f"{said['status']}, {said['protocol']}" if right else f"{said['status']}: {said['finding'][:160]}"
    return words + _mark(entry, where)


def _mark(entry: Entry, part: str) -> str:
    """The same composer wrote the same file; another one may have, for the same GPUs."""
    own, composed = entry.get(part, {}), entry.get("composed", {})
    return "" if not own or any(own.get(by, 0) == composed.get(by) for by in ("code", "text")) else "*"


def _cells(cells: list[str]) -> str:
    clean = (cell.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ") for cell in cells)
    return f"| {' | '.join(clean)} |"
