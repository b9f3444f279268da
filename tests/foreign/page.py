"""Renders docs/foreign.md from the recorded results: `python -m tests.foreign page`; a test compares."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from statistics import median

from . import answers, documents
from .documents import RECORDS, ROOT, Entry

PAGE = ROOT / "docs" / "foreign.md"
HEAD = """\
# Foreign ground

Rendered by `python -m tests.foreign page` from what `python -m tests.foreign problems` and `answers` wrote to
`benchmarks/results/foreign/`; a test compares. The problems are those of a local checkout of KernelBench, of
which only figures are kept; the answers were written for this purpose by somebody who had not read the judge.
"""
OUTCOMES = {
    "admitted": "judged on the emulator, and every wrong answer that was tried is refused",
    "refused": "wrong answers would be verified",
    "not probed": "too large for the emulator; on a GPU it is judged unprobed",
    "failed": "the reference raised an error, or its prompt could not be rendered",
    "not traced": "it cannot be traced",
    "fault": "a fault of ours",
}
EXECUTORS: dict[answers.Where, str] = {"emulator": "the emulator", "cuda": "a GPU"}


def render() -> str:
    """The page: the problems, then the answers on each executor that has judged them."""
    sections = [HEAD]
    if (RECORDS / "problems.json").is_file():
        sections.append(_problems(*_document("problems")))
    for where, words in EXECUTORS.items():
        if answers.record(where).is_file():
            sections.append(_answers(words, *_document(f"answers-{where}")))
    return "\n".join(sections if len(sections) > 1 else [HEAD, "Nothing is recorded yet.\n"])


def _document(name: str) -> tuple[str, list[Entry]]:
    """When and with which version it was recorded, and its entries."""
    path = RECORDS / f"{name}.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    return f"Version {document['version']}, {document['date']}.", list(documents.read(path).values())


def _problems(recorded: str, entries: list[Entry]) -> str:
    others = [entry for entry in entries if entry["outcome"] != "admitted"]
    lines = [
        "## Problems",
        "",
        f"{recorded} Each was traced, its prompt rendered, its sizes scaled for the emulator, and it was",
        "probed with wrong answers, in a process of its own with an empty cache.",
        "",
        *_by_level(entries),
        "",
        *(f"- *{outcome}*: {words}." for outcome, words in OUTCOMES.items() if _count(entries, outcome)),
        "",
        *_durations(entries),
        "",
        "### Not admitted",
        "",
        *(_rows(others, ("problem", "outcome", "reason"), _reason) if others else ["None."]),
        "",
        "### Every problem",
        "",
        *_rows(entries, ("problem", "operators", "outcome", "sizes", "seconds"), _problem),
        "",
    ]
    return "\n".join(lines)


def _by_level(entries: list[Entry]) -> list[str]:
    present = [outcome for outcome in OUTCOMES if _count(entries, outcome)]
    heads = ("", "problems", "traced", "at their own sizes", "at smaller sizes", *present)
    lines = [_row(heads), _row(["---"] * len(heads))]
    levels = sorted({_level(entry) for entry in entries})
    groups = [(level, [entry for entry in entries if _level(entry) == level]) for level in levels]
    for level, own in (*groups, ("all", entries)):
        shapes = Counter(entry["shapes"] for entry in own if entry.get("affordable"))
        traced = sum("operators" in entry for entry in own)
        counts = (len(own), traced, shapes["full"], shapes["shrunken"], *(_count(own, o) for o in present))
        lines.append(_row((level, *counts)))
    return lines


def _durations(entries: list[Entry]) -> list[str]:
    steps = sorted({step for entry in entries for step in entry["steps"]})
    lines = [_row(("seconds", "median", "most")), _row(["---"] * 3)]
    for name in (*steps, "everything"):
        took = [
            entry["seconds"] if name == "everything" else entry["steps"][name]
            for entry in entries
            if name == "everything" or name in entry["steps"]
        ]
        lines.append(_row((name, f"{median(took):.1f}", f"{max(took):.1f}")))
    return lines


def _answers(where: str, recorded: str, entries: list[Entry]) -> str:
    right = _count(entries, "verified", "status")
    others = [entry for entry in entries if entry["status"] != "verified"]
    lines = [
        f"## Right answers on {where}",
        "",
        f"{recorded} **{right} of {len(entries)} verified.**",
        "",
        *(_rows(others, ("answer", "status", "finding"), _finding) if others else []),
        *([""] if others else []),
        *_rows(entries, ("answer", "status", "sizes", "not checked", "seconds"), _answer),
        "",
    ]
    return "\n".join(lines)


def _problem(entry: Entry) -> tuple[object, ...]:
    operators = entry.get("operators", "")
    return entry["id"], operators, entry["outcome"], _sizes(entry), f"{entry['seconds']:.1f}"


def _reason(entry: Entry) -> tuple[object, ...]:
    return entry["id"], entry["outcome"], entry.get("reason", "")


def _finding(entry: Entry) -> tuple[object, ...]:
    return entry["id"], entry["status"], entry["finding"]


def _answer(entry: Entry) -> tuple[object, ...]:
    return entry["id"], entry["status"], _sizes(entry), len(entry["skipped"]), f"{entry['seconds']:.1f}"


def _sizes(entry: Entry) -> str:
    if entry.get("shapes") != "shrunken":
        return str(entry.get("shapes", ""))
    return ", ".join(f"{name} {real}->{used}" for name, (real, used) in entry["sizes"].items())


def _count(entries: Iterable[Entry], value: str, key: str = "outcome") -> int:
    return sum(entry[key] == value for entry in entries)


def _level(entry: Entry) -> str:
    return str(entry["id"]).partition("/")[0]


def _rows(
    entries: list[Entry], heads: tuple[str, ...], cells: Callable[[Entry], tuple[object, ...]]
) -> list[str]:
    return [_row(heads), _row(["---"] * len(heads)), *(_row(cells(entry)) for entry in entries)]


def _row(cells: Iterable[object]) -> str:
    """Text from elsewhere stays in its cell."""
    plain = (
        " ".join(str(cell).split()).replace("|", "\\|").replace("<", "&lt;").replace(">", "&gt;")
        for cell in cells
    )
    return f"| {' | '.join(plain)} |"
