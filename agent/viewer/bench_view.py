"""A bench as its page shows it: progress, figures, and each of its runs with a link."""

from pathlib import Path
from typing import NamedTuple

from agent.bench import Bench, faults, page
from agent.bench.outcome import BEST, Outcome
from agent.bench.report import Report, report
from agent.store.folder import run_folders
from agent.store.writer import EVENTS
from agent.viewer.runs_list import href

MOST_ROWS = 2_000
"""Maximum number of runs that the page lists; a report has all of them."""
OF_A_BENCH = "/bench"
"""Path of the page of a bench."""


class Row(NamedTuple):
    """One run of the bench as the page lists it."""

    problem: str
    sample: int
    href: str | None
    """Address of the run's page; None if the run has not begun."""
    ending: str
    attempts: int
    speedup: float | None
    """Speedup over the best baseline."""
    tokens: int | None
    reason: str


class BenchView(NamedTuple):
    report: Report
    over: int
    """Number of runs that have ended."""
    figures: tuple[tuple[str, ...], ...]
    """Name of each figure, followed by its value for each group."""
    rows: tuple[Row, ...]
    """Unfinished runs first, then the others in the bench's order."""

    @property
    def going_on(self) -> bool:
        return self.over < len(self.report.outcomes)


def seen(bench: Bench) -> BenchView:
    """Return the current state of the bench. Raises UsageError for a bench that cannot be read."""
    found = report(bench)
    listed = sorted(found.outcomes, key=lambda one: one.ending != "unfinished")
    return BenchView(
        report=found,
        over=sum(one.over for one in found.outcomes),
        figures=tuple(page.figures(found.groups)),
        rows=tuple(map(_row, listed[:MOST_ROWS])),
    )


def sizes(bench: Bench) -> int:
    """Return the bytes written for the runs plus the number of runs, which grows with each event."""
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
