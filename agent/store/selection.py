"""Filtering and ordering runs by their summaries: pure functions for every list of runs."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Literal, get_args

from agent.errors import UsageError
from agent.records import Record
from agent.store.index import newest_first
from agent.store.summary import RunState, RunSummary

Status = RunState | Literal["verified", "no_kernel"]
STATUSES: tuple[str, ...] = (*get_args(RunState), "verified", "no_kernel")
"""Accepted statuses: a run's state, `verified` (has a verified attempt), `no_kernel` (ended without one)."""


class Order(StrEnum):
    """Sort keys of runs; the largest value comes first."""

    DATE = "date"
    SPEEDUP = "speedup"
    ROUNDS = "rounds"
    TOKENS = "tokens"
    COST = "cost"


_AGE = re.compile(r"(\d{1,6})(m|h|d|w)")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class Selection(Record):
    """Filter for runs; a run matches if all given conditions hold."""

    problem: str | None = None
    """Part of the problem's name, ignoring case."""
    statuses: tuple[str, ...] = ()
    """Accepted statuses, from STATUSES; empty accepts all."""
    provider: str | None = None
    """Part of the provider's or the model's name, ignoring case."""
    since: datetime | None = None
    """Earliest creation time, inclusive; excludes a run without a date."""
    until: datetime | None = None
    """Latest creation time, exclusive."""

    @property
    def is_everything(self) -> bool:
        return self == Selection()

    def takes(self, run: RunSummary) -> bool:
        """Return True if the run matches."""
        if self.problem is not None and not _within(self.problem, run.problem):
            return False
        if self.provider is not None and not _within(self.provider, run.provider, run.model):
            return False
        if self.since is not None and (run.created is None or run.created < self.since):
            return False
        if self.until is not None and (run.created is None or run.created >= self.until):
            return False
        return not self.statuses or any(_is(run, status) for status in self.statuses)


def select(runs: Iterable[RunSummary], selection: Selection) -> list[RunSummary]:
    """Return the runs that match, in the given order."""
    return [run for run in runs if selection.takes(run)]


def ordered(runs: Iterable[RunSummary], by: Order) -> list[RunSummary]:
    """Sort runs by a key, largest first. Unknown values come last; ties are sorted newest first."""
    newest = newest_first(runs)
    if by is Order.DATE:
        return newest
    values = [(_value(run, by), run) for run in newest]
    known = [pair for pair in values if pair[0] is not None]
    known.sort(key=lambda pair: -(pair[0] or 0))
    return [run for _, run in known] + [run for value, run in values if value is None]


def moment(text: str, now: datetime | None = None) -> datetime:
    """Parse `2026-11-20`, `2026-11-20T17:00`, or an age: `30d`, `12h`, `90m`, `2w`. The default zone is UTC.

    Raises UsageError for any other text.
    """
    age = _AGE.fullmatch(text)
    try:
        if age:
            return (now or datetime.now(UTC)) - timedelta(**{_UNITS[age[2]]: int(age[1])})
        when = datetime.fromisoformat(text)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{text!r} is not a date; write 2026-11-20, or an age such as 30d") from error
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def check_statuses(statuses: Sequence[str]) -> tuple[str, ...]:
    """Return the statuses as a tuple. Raises UsageError for an unknown one."""
    for status in statuses:
        if status not in STATUSES:
            raise UsageError(f"unknown status {status!r}; choose from: {', '.join(STATUSES)}")
    return tuple(statuses)


def _within(part: str, *texts: str | None) -> bool:
    return any(part.casefold() in text.casefold() for text in texts if text is not None)


def _is(run: RunSummary, status: str) -> bool:
    if status == "verified":
        return run.best_attempt is not None
    return run.outcome == "no_kernel" if status == "no_kernel" else run.state == status


def _value(run: RunSummary, by: Order) -> float | None:
    match by:
        case Order.SPEEDUP:
            return run.speedup
        case Order.ROUNDS:
            return run.rounds
        case Order.TOKENS:
            return run.tokens
        case _:
            return run.cost_usd
