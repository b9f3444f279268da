"""History of a run, attempt by attempt, derived only from its stored events.

Pure functions over a `Log`: the parent of each attempt, its changes, prompt and answer, and its cost. Rounds
whose answer held no candidate are in `Log.rounds`. This module renders nothing, judges and ranks nothing
anew, and opens no file.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from difflib import SequenceMatcher
from typing import Literal, TypeVar

from agent import ranking
from agent.records import (
    Attempt,
    Completed,
    Completion,
    Evaluated,
    Evaluation,
    Finding,
    Prompt,
    Prompted,
    Record,
    SecondLook,
    Unconfirmed,
    Unjudged,
)
from agent.store.log import Log

COMPARED_LINES = 4000
"""Maximum lines of a source to compare.

The comparison is quadratic, and no hand-written kernel is as long.
"""

Number = TypeVar("Number", int, float)

_LINE_END = re.compile(r"\r\n|\r|\n")


class Change(Record):
    """Lines added and removed between a source and its parent."""

    added: int
    removed: int


class Entry(Record):
    """One attempt at its place in the run."""

    attempt: Attempt
    round: int
    parent: int | None = None
    """Number of the parent attempt; None for a first answer, or where the parent cannot be read."""
    children: tuple[int, ...] = ()
    """Numbers of the attempts made from this one: mends in the same round, or the answer to its feedback."""
    change: Change | None = None
    """Changes against the parent; None without one, or where either source exceeds COMPARED_LINES."""
    judged: datetime | None = None
    """Time when the verdict was on disk, UTC."""
    seconds: float | None = None
    """Judging time in seconds."""
    first: Evaluation | None = None
    """Verdict of the first look, if the verdict of a second look has replaced it."""
    second_look_seconds: float | None = None
    """Duration in seconds of the second look, which runs in parallel with the search."""
    prompt: Prompt | None = None
    """Prompt that this attempt answers; None for a mend, which no prompt asked for."""
    completion: Completion | None = None
    """Answer that holds this attempt, with its tokens, cost and seconds; None for a mend."""

    @property
    def number(self) -> int:
        return self.attempt.number

    @property
    def cause(self) -> Finding | None:
        """Return the headline finding of the attempt, or None."""
        return self.attempt.evaluation.headline

    @property
    def speedup(self) -> float | None:
        measurement = self.attempt.evaluation.measurement
        return measurement.speedup if measurement else None


class Totals(Record):
    """Totals over all answers of a run. A value that no answer reported is None, never zero."""

    answers: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    """Output tokens including reasoning, as endpoints count them."""
    reasoning_tokens: int | None = None
    cost_usd: float | None = None
    answer_seconds: float | None = None
    judging_seconds: float | None = None
    partial: bool = False
    """True if some answers lack token counts, so that input and output tokens are lower bounds."""

    @property
    def tokens(self) -> int | None:
        """Return input and output tokens together."""
        known = [count for count in (self.input_tokens, self.output_tokens) if count is not None]
        return sum(known) if known else None


class History(Record):
    """The attempts of a run as a tree, in the order in which they were judged."""

    entries: tuple[Entry, ...] = ()
    best: int | None = None
    """Number of the best verified attempt: as recorded at the run's end, otherwise by ranking so far."""
    totals: Totals = Totals()
    began: datetime | None = None
    """Time of the first event."""
    last: datetime | None = None
    """Time of the last event so far."""

    def entry(self, number: int) -> Entry | None:
        """Return the attempt with this number."""
        return next((entry for entry in self.entries if entry.number == number), None)


class DiffLine(Record):
    """One line of a comparison, with its line numbers in the old and the new source, counted from 1."""

    kind: Literal["same", "added", "removed", "gap"]
    """Kind of line. `gap` stands for omitted unchanged lines and has an empty text."""
    text: str = ""
    old: int | None = None
    new: int | None = None


def build_history(log: Log) -> History:
    """Return the history of one run. A log without events gives an empty history."""
    asked = {event.round: event.prompt for event in log.events if isinstance(event, Prompted)}
    answered = {event.round: event.completion for event in log.events if isinstance(event, Completed)}
    entries = _linked([event for event in log.events if isinstance(event, Evaluated)], asked, answered)
    looks = log.second_looks
    entries = tuple(_standing(entry, looks.get(entry.number)) for entry in entries)
    best = ranking.best_of(log.attempts, log.finished)
    times = [event.time for event in log.events if event.time is not None]
    return History(
        entries=entries,
        best=best.number if best else None,
        totals=totals(log),
        began=times[0] if times else None,
        last=times[-1] if times else None,
    )


def totals(log: Log) -> Totals:
    """Sum tokens, cost and time over all answers, also those without a candidate, and over all judging."""
    answers = [event.completion for event in log.events if isinstance(event, Completed)]
    usages = [answer.usage for answer in answers]
    return Totals(
        answers=len(answers),
        input_tokens=_sum(usage.input_tokens for usage in usages),
        output_tokens=_sum(usage.output_tokens for usage in usages),
        reasoning_tokens=_sum(usage.reasoning_tokens for usage in usages),
        cost_usd=_sum(answer.cost_usd for answer in answers),
        answer_seconds=_sum(answer.seconds for answer in answers),
        judging_seconds=_sum(
            event.seconds
            for event in log.events
            if isinstance(event, Evaluated | Unjudged | SecondLook | Unconfirmed)
        ),
        partial=any(usage.input_tokens is None or usage.output_tokens is None for usage in usages),
    )


def change(old: str, new: str) -> Change | None:
    """Count the lines added and removed; return None where a source exceeds COMPARED_LINES."""
    matcher = _matcher(source_lines(old), source_lines(new))
    if matcher is None:
        return None
    edits = [opcode[1:] for opcode in matcher.get_opcodes() if opcode[0] != "equal"]
    return Change(
        added=sum(new_end - new_start for _, _, new_start, new_end in edits),
        removed=sum(old_end - old_start for old_start, old_end, _, _ in edits),
    )


def diff(old: str, new: str, context: int = 3) -> tuple[DiffLine, ...] | None:
    """Return the changed lines with `context` unchanged ones around each; empty if nothing changed.

    Returns None where one of the sources is longer than COMPARED_LINES.
    """
    before, after = source_lines(old), source_lines(new)
    matcher = _matcher(before, after)
    if matcher is None:
        return None
    lines: list[DiffLine] = []
    for group in matcher.get_grouped_opcodes(context):
        if lines or group[0][1] > 0 or group[0][3] > 0:
            lines.append(DiffLine(kind="gap"))
        for tag, old_start, old_end, new_start, new_end in group:
            if tag == "equal":
                pairs = zip(range(old_start, old_end), range(new_start, new_end), strict=True)
                lines += [DiffLine(kind="same", text=before[i], old=i + 1, new=j + 1) for i, j in pairs]
                continue
            lines += [DiffLine(kind="removed", text=before[i], old=i + 1) for i in range(old_start, old_end)]
            lines += [DiffLine(kind="added", text=after[i], new=i + 1) for i in range(new_start, new_end)]
    return tuple(lines)


def source_lines(source: str) -> list[str]:
    """Split a source into lines as Python counts them, so that findings match. Omits line ends."""
    return _LINE_END.split(source.removesuffix("\n"))


def _linked(
    events: Sequence[Evaluated], asked: dict[int, Prompt], answered: dict[int, Completion]
) -> tuple[Entry, ...]:
    """Build the entries and link parents and children by number.

    The parent of a source that was judged twice is its latest attempt.
    """
    latest: dict[str, Attempt] = {}
    children: dict[int, list[int]] = {}
    entries: list[Entry] = []
    for event in events:
        attempt, mend = event.attempt, event.attempt.candidate.origin == "mend"
        parent = latest.get(attempt.candidate.parent or "")
        if parent is not None:
            children.setdefault(parent.number, []).append(attempt.number)
        entries.append(
            Entry(
                attempt=attempt,
                round=event.round,
                parent=parent.number if parent else None,
                change=change(parent.candidate.source, attempt.candidate.source) if parent else None,
                judged=event.time,
                seconds=event.seconds,
                prompt=None if mend else asked.get(event.round),
                completion=None if mend else answered.get(event.round),
            )
        )
        latest[attempt.candidate.id] = attempt
    return tuple(
        entry.model_copy(update={"children": tuple(children.get(entry.number, ()))}) for entry in entries
    )


def _standing(entry: Entry, look: SecondLook | None) -> Entry:
    """Replace the entry's verdict with that of the second look, if there is one."""
    if look is None:
        return entry
    attempt = entry.attempt.model_copy(update={"evaluation": look.evaluation})
    later = {"attempt": attempt, "first": entry.attempt.evaluation, "second_look_seconds": look.seconds}
    return entry.model_copy(update=later)


def _matcher(old: Sequence[str], new: Sequence[str]) -> SequenceMatcher[str] | None:
    return None if max(len(old), len(new)) > COMPARED_LINES else SequenceMatcher(None, old, new)


def _sum(values: Iterable[Number | None]) -> Number | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
