"""A bench as its page shows it: how far it is, its figures, and each of its runs with a link to it."""

from pathlib import Path
from typing import NamedTuple

from agent.bench import Bench, faults, page
from agent.bench.outcome import BEST, Outcome
from agent.bench.report import Report, report
from agent.store.folder import run_folders
from agent.store.writer import EVENTS
from agent.viewer.runs_list import href

MOST_ROWS = 2_000
"""Runs that the page lists; a report has them all."""
OF_A_BENCH = "/bench"
"""The address of its page."""


class Row(NamedTuple):
    """One run that the bench makes."""

    problem: str
    sample: int
    href: str | None
    """None where it has not begun."""
    ending: str
    attempts: int
    speedup: float | None
    """Against the best baseline."""
    tokens: int | None
    reason: str


class BenchView(NamedTuple):
    report: Report
    over: int
    """Runs that have come to an end."""
    figures: tuple[tuple[str, ...], ...]
    """A name, and what it is for each group."""
    rows: tuple[Row, ...]
    """Those that go on first, then as the bench makes them."""

    @property
    def going_on(self) -> bool:
        return self.over < len(self.report.outcomes)


def seen(bench: Bench) -> BenchView:
    """The bench as it is now. Raises UsageError for one that does not read."""
    found = report(bench)
    listed = sorted(found.outcomes, key=lambda one: one.ending != "unfinished")
    return BenchView(
        report=found,
        over=sum(one.over for one in found.outcomes),
        figures=tuple(page.figures(found.groups)),
        rows=tuple(map(_row, listed[:MOST_ROWS])),
    )


def sizes(bench: Bench) -> int:
    """Bytes of what was written down of its runs, and how many there are: grows with each event."""
    written = sum(_size_of(path / EVENTS) + 1 for path in run_folders(bench.runs_dir))
    return written + _size_of(bench.path / faults.FILE)


def _size_of(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _row(one: Outcome) -> Row:
    return Row(
        problem=one.address,
        sample=one.sample,
        href=href(one.run) if one.run else None,
        ending=one.ending,
        attempts=one.attempts,
        speedup=one.speedup(BEST),
        tokens=one.tokens,
        reason=one.reason,
    )
