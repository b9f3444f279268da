"""A transcript as read back: every readable line, and a record of each damaged line.

Reading never fails because of a file's content: a damaged line is reported with its number, and the other
lines are read. A line counts once its newline is written. Text after the last newline was being written when
the process died. It is reported as `cut` and ignored.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent.errors import EnvironmentFault
from agent.records import (
    Attempt,
    Completed,
    Completion,
    Evaluated,
    Event,
    Feedback,
    Move,
    Prompt,
    Prompted,
    ReplyRejected,
    RetryScheduled,
    RunFinished,
    RunStarted,
    SecondLook,
    Unconfirmed,
    Unjudged,
)
from agent.store.lines import UnreadableLine, decode


@dataclass(frozen=True)
class Damage:
    """One damaged line of events.jsonl; lines count from 1."""

    line: int
    reason: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}"


@dataclass(frozen=True)
class Round:
    """Events of one round, in order; None for each step that the round did not reach."""

    number: int
    move: Move | None = None
    """Rounds that this one continues; None where its prompt cannot be read."""
    prompt: Prompt | None = None
    completion: Completion | None = None
    rejected: Feedback | None = None
    evaluated: tuple[Evaluated, ...] = ()
    unjudged: tuple[Unjudged, ...] = ()
    second_looks: tuple[SecondLook | Unconfirmed, ...] = ()
    """Second looks at attempts of this round, whenever they ended."""
    retries: tuple[RetryScheduled, ...] = ()

    @property
    def seconds(self) -> float | None:
        """Return the time of answer and verdicts together, or None if no part recorded it."""
        answered = self.completion.seconds if self.completion else None
        judged = [*(event.seconds for event in self.evaluated), *(event.seconds for event in self.unjudged)]
        known = [part for part in (answered, *judged) if part is not None]
        return sum(known) if known else None


@dataclass(frozen=True)
class Log:
    """The events of one run as read from its transcript."""

    events: tuple[Event, ...] = ()
    problems: tuple[Damage, ...] = ()
    cut: bool = False
    """True if the process died while writing the last line."""

    @property
    def started(self) -> RunStarted | None:
        return next((event for event in self.events if isinstance(event, RunStarted)), None)

    @property
    def finished(self) -> RunFinished | None:
        """Return the end of the run, or None if it has none or was resumed after it."""
        last = self.events[-1] if self.events else None
        return last if isinstance(last, RunFinished) else None

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """Return the attempts in the order of their first verdicts, each with its current verdict."""
        later = self.second_looks
        return tuple(
            event.attempt.model_copy(update={"evaluation": later[event.attempt.number].evaluation})
            if event.attempt.number in later
            else event.attempt
            for event in self.events
            if isinstance(event, Evaluated)
        )

    @property
    def second_looks(self) -> dict[int, SecondLook]:
        """Return the last second look at each attempt, by its number."""
        return {event.number: event for event in self.events if isinstance(event, SecondLook)}

    @property
    def unjudged(self) -> tuple[Unjudged, ...]:
        return tuple(event for event in self.events if isinstance(event, Unjudged))

    @property
    def answers(self) -> tuple[tuple[str, Completion], ...]:
        """Return prompt id and completion of every answer in order, for a replay."""
        return tuple((e.prompt_id, e.completion) for e in self.events if isinstance(e, Completed))

    @property
    def rounds(self) -> tuple[Round, ...]:
        """Group the events by round. A retry belongs to the round whose prompt was sent again."""
        collected: dict[int, _Open] = {}
        current = _Open()
        for event in self.events:
            if isinstance(event, Prompted | Completed | ReplyRejected | Evaluated | Unjudged):
                current = collected.setdefault(event.round, _Open())
                current.take(event)
            elif isinstance(event, SecondLook | Unconfirmed):
                collected.setdefault(event.round, _Open()).second_looks.append(event)
            elif isinstance(event, RetryScheduled):
                asking = current if event.round is None else collected.setdefault(event.round, _Open())
                asking.retries.append(event)
        return tuple(collected[number].close(number) for number in sorted(collected))


@dataclass
class _Open:
    """A round while its events are being collected."""

    move: Move | None = None
    prompt: Prompt | None = None
    completion: Completion | None = None
    rejected: Feedback | None = None
    evaluated: list[Evaluated] = field(default_factory=list)
    unjudged: list[Unjudged] = field(default_factory=list)
    second_looks: list[SecondLook | Unconfirmed] = field(default_factory=list)
    retries: list[RetryScheduled] = field(default_factory=list)

    def take(self, event: Prompted | Completed | ReplyRejected | Evaluated | Unjudged) -> None:
        match event:
            case Prompted():
                self.prompt, self.move = event.prompt, event.move
            case Completed():
                self.completion = event.completion
            case ReplyRejected():
                self.rejected = event.feedback
            case Evaluated():
                self.evaluated.append(event)
            case Unjudged():
                self.unjudged.append(event)

    def close(self, number: int) -> Round:
        return Round(
            number=number,
            move=self.move,
            prompt=self.prompt,
            completion=self.completion,
            rejected=self.rejected,
            evaluated=tuple(self.evaluated),
            unjudged=tuple(self.unjudged),
            second_looks=tuple(self.second_looks),
            retries=tuple(self.retries),
        )


def read(path: Path, fetch: Callable[[str], str]) -> Log:
    """Read events.jsonl; a missing file gives an empty log. Raises EnvironmentFault if it is unreadable."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return Log()
    except OSError as error:
        raise EnvironmentFault(f"cannot read {path}: {error.strerror}") from error
    *lines, rest = content.split(b"\n")
    events: list[Event] = []
    problems: list[Damage] = []
    for index, line in enumerate(lines):
        try:
            event = decode(line, fetch)
        except UnreadableLine as error:
            problems.append(Damage(index + 1, str(error)))
            continue
        if event.seq != index:
            problems.append(Damage(index + 1, f"holds event {event.seq} where {index} belongs"))
        events.append(event)
    return Log(tuple(events), tuple(problems), cut=bool(rest))


def attempt_numbers(attempts: Sequence[Attempt]) -> str:
    """Format attempt numbers for a message: `1, 2, 3`."""
    return ", ".join(str(attempt.number) for attempt in attempts) or "none"
