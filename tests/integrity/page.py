"""Renders docs/integrity.md from the recorded verdicts: `python -m tests.integrity.page`; a test compares."""

import json
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import get_args

from agent.records import Stage
from benchmarks import storage

from . import corpus, run
from .corpus import Program, Where
from .run import Verdict

PAGE = storage.ROOT / "docs" / "integrity.md"
STAGES = get_args(Stage)
CATEGORIES = {
    "attacks": {
        "reuse": "results and memory used again",
        "aliasing": "inputs and parameters changed, outputs that alias",
        "patching": "functions of torch and of the judge replaced",
        "disguise": "somebody else computes",
        "precision": "fewer bits than asked for",
        "degenerate": "right by the choice of inputs, or by a loose tolerance",
        "process": "the process, its channel and the machine",
        "build": "compile time and load time",
        "clock": "work hidden from the clock, or not done while it runs",
    },
    "honest": {
        "words": "forbidden words where they mean nothing",
        "memory": "atomics, scratch that stays, constant memory",
        "python": "unusual but harmless Python",
        "numerics": "other ways to compute the same",
        "inputs": "integers, booleans, half precision, infinities",
        "layout": "copies, packing, vector paths",
        "structure": "several extensions, library operators, templates, slowness",
    },
    "buggy": {
        "values": "wrong formula",
        "bounds": "wrong index or size",
        "races": "missing order between threads",
        "interface": "wrong shape, dtype, container or constructor",
        "crashes": "crash, hang, exception",
        "build": "does not build, or is no candidate",
    },
}
HEAD = """\
# Evaluation integrity: the corpora

Rendered by `python -m tests.integrity.page` from the verdicts that `python -m tests.integrity.run` wrote to
`benchmarks/results/integrity/`; a test compares. The programs are in `tests/integrity/programs`, each with
what is expected of it at its head: attacks have to be refused, honest answers that look suspicious have to be
verified, and plainly buggy ones have to be refused with the status that names the fault.

Every program is judged by the executor that `agent eval` uses. An attack that the screen refuses is judged a
second time without the screen and has to fall at a later stage; where the screen has nothing to say, both are
the same evaluation. An attack on the clock has to be refused or timed truthfully: on a GPU it may be verified
where its time is not below that of the honest program it is held against (`timed_as`), and on the emulator,
which times nothing, where its heading says why that is harmless. `make test` runs a sample with at least one
program of every category (`sample = true`), and the screen over all of them; `pytest --all-kernels
tests/integrity` runs everything. `make gpu-test` runs all programs on a GPU.
"""

LIMITS = Path(__file__).resolve().with_name("where_it_ends.md")


def render() -> str:
    """The page: one section for each recorded document."""
    sections = [_section(path) for path in sorted(storage.INTEGRITY.glob("*.json"), reverse=True)]
    return "\n".join([HEAD, LIMITS.read_text(), *sections])


def _section(path: Path) -> str:
    document = json.loads(path.read_text())
    known: dict[tuple[str, str], Program] = {(p.kind, p.name): p for p in corpus.programs()}
    judged = [(v, known[v.kind, v.name]) for v in run.read(path) if (v.kind, v.name) in known]
    lines = [
        f"## On {'the emulator' if document['executor'] == 'emulator' else document['executor']}",
        "",
        f"Version {document['version']}, {document['date']}.",
        "",
        *([document["note"], ""] if "note" in document else []),
        *_summary(judged, document["executor"]),
        *_attacks(judged),
        *_others(judged, "honest", "Honest answers"),
        *_others(judged, "buggy", "Buggy answers"),
        *_screen_only(program for _, program in judged),
        *_harmless((program for _, program in judged), document["executor"]),
        *_differing(judged, document["executor"]),
        *_everything(judged),
    ]
    return "\n".join(lines)


Judged = list[tuple[Verdict, Program]]


def _summary(judged: Judged, where: Where) -> list[str]:
    differing = run.differences((v for v, _ in judged), where)
    wrong = {(case.program.kind, case.program.name) for case in differing}
    accepted = {v.name for v, p in judged if v.status == "verified" and v[:2] in wrong}
    refused = {v.name for v, p in judged if p.kind == "honest" and v.status != "verified"}
    rows = [
        "| | programs | evaluations | accepted | refused | not judged | as expected |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind in corpus.KINDS:
        own = [(v, p) for v, p in judged if v.kind == kind]
        status = Counter(_outcome(v) for v, _ in own)
        right = len(own) - sum(case.program.kind == kind for case in differing)
        counts = (len({v.name for v, _ in own}), len(own), status["accepted"], status["refused"])
        rows.append(f"| {kind} | {' | '.join(map(str, counts))} | {status['not judged']} | {right} |")
    return [
        f"**Wrongly accepted: {len(accepted)} programs. Wrongly refused: {len(refused)} programs.**",
        "",
        *rows,
        "",
    ]


def _outcome(verdict: Verdict) -> str:
    if verdict.status == "verified":
        return "accepted"
    return "not judged" if verdict.status in ("unsupported", "fault") else "refused"


def _attacks(judged: Judged) -> list[str]:
    stages = [stage for stage in STAGES if any(v.stage == stage for v, _ in judged)]
    lines = ["### Attacks: where they fall", ""]
    for screened, title in ((True, "With the screen"), (False, "The same without the screen")):
        lines += [
            f"| {title.lower()} | " + " | ".join(stages) + " | accepted | not judged |",
            "|---" * (len(stages) + 3) + "|",
        ]
        for category, words in CATEGORIES["attacks"].items():
            own = [v for v, p in judged if p.kind == "attacks" and p.category == category]
            shown = [v for v in own if v.screened == screened or (not screened and v.stage != "screen")]
            fallen = Counter(v.stage for v in shown if _outcome(v) == "refused")
            others = Counter(_outcome(v) for v in shown)
            cells = [*(fallen[stage] for stage in stages), others["accepted"], others["not judged"]]
            lines.append(f"| {category}: {words} | " + " | ".join(str(cell or "") for cell in cells) + " |")
        lines.append("")
    return lines


def _others(judged: Judged, kind: str, title: str) -> list[str]:
    statuses = sorted({v.status for v, p in judged if p.kind == kind})
    lines = [f"### {title}", "", "| | " + " | ".join(statuses) + " |", "|---" * (len(statuses) + 1) + "|"]
    for category, words in CATEGORIES[kind].items():
        counts = Counter(v.status for v, p in judged if (p.kind, p.category) == (kind, category))
        cells = " | ".join(str(counts[status] or "") for status in statuses)
        lines.append(f"| {category}: {words} | {cells} |")
    return [*lines, ""]


def _screen_only(programs: Iterable[Program]) -> list[str]:
    told = dict.fromkeys(f"- `{p.name}`: {p.screen_only}." for p in programs if p.screen_only)
    return ["### Attacks that only the screen sees", "", *(told or ["None."]), ""]


def _harmless(programs: Iterable[Program], where: Where) -> list[str]:
    reasons = ((p.name, p.harmless if where == "emulator" else p.harmless_on_gpu) for p in programs)
    told = dict.fromkeys(f"- `{name}`: {why}." for name, why in reasons if why)
    return ["### Attacks that do no harm here", "", *(told or ["None."]), ""]


def _differing(judged: Judged, where: Where) -> list[str]:
    told = [f"- {case}: {words}." for case, words in run.differences((v for v, _ in judged), where).items()]
    return ["### Not as expected", "", *(told or ["Nothing."]), ""]


def _everything(judged: Judged) -> list[str]:
    lines = ["### Every program", ""]
    for kind in corpus.KINDS:
        lines += [f"| {kind} | what it does | verdict | without the screen |", "|---|---|---|---|"]
        verdicts = {(v.name, v.screened): v for v, p in judged if p.kind == kind}
        for program in (p for p in corpus.programs() if p.kind == kind):
            shown = [_verdict(verdicts.get((program.name, screened))) for screened in (True, False)]
            lines.append(f"| `{program.name}` | {program.about} | {shown[0]} | {shown[1]} |")
        lines.append("")
    return lines


def _verdict(verdict: Verdict | None) -> str:
    if verdict is None:
        return ""
    cause = verdict.finding.partition(":")[0] if verdict.status != "verified" else ""
    time = f", {verdict.ms:.4g} ms" if verdict.ms else ""
    return f"{verdict.status}{f' ({verdict.stage}: {cause})' if cause else ''}{time}"


if __name__ == "__main__":
    PAGE.write_text(render())
    sys.stdout.write(f"{PAGE}\n")
