"""Renders docs/gpu-verification.md from the raw documents: `python -m tests.gpu.summary`."""

import json
import sys
from typing import Any

from benchmarks import storage

from .planted import words

PAGE = storage.ROOT / "docs" / "gpu-verification.md"
HEAD = """\
# What ran on a GPU

Rendered by `python -m tests.gpu.summary` from the raw output in `benchmarks/results/gpu/`; a test compares.
Each section is a run of `python -m tests.gpu.verify`, `tests.gpu.kernels`, `tests.gpu.planted` or
`tests.gpu.corpus` (`make gpu-test` runs all and the integrity corpus, which has [a page of its
own](integrity.md)), of `benchmarks.verdict` or of `benchmarks.build`; what `agent kernels verify` and
`bench` found there is in [another](kernels.md). Times are medians in milliseconds with a cold L2 cache.
Those of commits before 00dc5b9 are by CUDA events in the candidate's own process alone; later ones are taken
in turns with the reference and held against a clock of the judge's (`agent/harness/timing/benchmark.py`).
"""


def render() -> str:
    """The page, newest run first."""
    sections = {
        "2*": _verdicts, "kernels-*": _shipped, "planted-*": _planted, "verdict-*": _spent,
        "build-*": _builds, "corpus-*": _corpus,
    }  # fmt: skip
    return "\n".join(
        [HEAD, *(section(document) for runs, section in sections.items() for document in _documents(runs))]
    )


def _documents(runs: str) -> list[dict[str, Any]]:
    """Of all runs of one kind, newest first."""
    return [json.loads(path.read_text()) for path in sorted(storage.GPU.glob(f"{runs}.json"), reverse=True)]


def _heading(title: str, document: dict[str, Any]) -> list[str]:
    machine = document["machine"]
    return [
        f"## {title}: {document['date']}, {machine['gpu']}",
        "",
        f"Commit `{document['commit']}`; torch and CUDA {machine['torch']}; nvcc {machine['nvcc']}; "
        f"Python {machine['python']}.",
        "",
    ]


def _shipped(document: dict[str, Any]) -> str:
    """Checks of the shipped kernels, run by `python -m tests.gpu.kernels`."""
    lines = [*_heading("The shipped kernels", document), "| check | outcome | s |", "|---|---|---|"]
    for name, found in document["checks"].items():
        outcome = "passed" if found.get("passed") else found.get("left_out") or found.get("error")
        lines.append(f"| {name} | {outcome} | {found['seconds']} |")
    return "\n".join([*lines, ""])


def _planted(document: dict[str, Any]) -> str:
    """Kernels that differ by 3 %, run by `python -m tests.gpu.planted`."""
    return "\n".join([*_heading("A planted 3 %", document), f"{words(document['summary'])}.", ""])


def _spent(document: dict[str, Any]) -> str:
    """Seconds of a verdict by part, taken by `python -m benchmarks.verdict`."""
    lines = [
        *_heading("What a verdict costs", document),
        "| verdict | build s | verified, timed s | accepted s, less builds | those builds s | all s |",
        "|---|---|---|---|---|---|",
    ]
    for found in document["verdicts"]:
        lines.append(
            f"| {found['status']} | " + " | ".join(_number(s, 1) for s in found["seconds"].values()) + " |"
        )
    return "\n".join([*lines, ""])


def _builds(document: dict[str, Any]) -> str:
    """Seconds of building, taken by `python -m benchmarks.build`."""
    lines = [
        *_heading(f"Builds on {document['cpus']} CPUs", document),
        "| candidate | stock s | fast s | device code changed s | stock / fast | stock / changed |",
        "|---|---|---|---|---|---|",
    ]
    for row in document["rows"]:
        stock, fast, changed = (row[name] for name in ("stock_s", "cold_s", "device_changed_s"))
        ratios = [stock / seconds if stock and seconds else None for seconds in (fast, changed)]
        cells = [
            _number(stock, 1),
            _number(fast, 2),
            _number(changed, 2),
            *(_number(ratio, 1) for ratio in ratios),
        ]
        lines.append(f"| {row['candidate']} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def _corpus(document: dict[str, Any]) -> str:
    """The emulator's correct kernels, run by `python -m tests.gpu.corpus`."""
    lines = [
        *_heading("The emulator's correct kernels", document),
        "| program | kernels that agree with PyTorch | kernels that differ |",
        "|---|---|---|",
    ]
    for program in document["programs"]:
        cases = program["cases"] or {}
        wrong = ", ".join(name for name, difference in cases.items() if difference)
        differ = wrong if cases else "the program did not run"
        lines.append(f"| {program['program']} | {sum(not d for d in cases.values())} | {differ} |")
    return "\n".join([*lines, ""])


def _verdicts(document: dict[str, Any]) -> str:
    lines = [
        *_heading("Verdicts", document),
        "| command | exit | status | candidate | eager | compile | speedup | roofline | build s | budget |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *(_row(step) for step in document["steps"]), ""])


def _row(step: dict[str, Any]) -> str:
    evaluation = step["evaluation"] or {}
    times = evaluation.get("measurement") or {}
    spread = {name: (times.get(name) or {}).get("p50") for name in ("candidate_ms", "eager_ms", "compile_ms")}
    against = (times.get(f"{times.get('baseline')}_ms") or {}).get("p50")
    speedup = against / spread["candidate_ms"] if against and spread["candidate_ms"] else None
    used = (evaluation.get("correctness") or {}).get("error_budget_ratio")
    cells = [
        f"`{step['command']}`",
        step["exit"],
        evaluation.get("status"),
        *(_number(spread[name], 3) for name in spread),
        _number(speedup, 2),
        _number(times.get("roofline_fraction"), 2),
        _number((evaluation.get("build") or {}).get("seconds"), 0),
        _number(used, 3),
    ]
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


if __name__ == "__main__":
    PAGE.write_text(render())
    sys.stdout.write(f"{PAGE}\n")
