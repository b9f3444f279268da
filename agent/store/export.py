"""A run as one JSON document: what `agent show RUN --json` prints, field by field in docs/viewer.md.

The records here are that format: stored records as they are, and beside them what is derived from them.
"""

from datetime import datetime

from agent.errors import AgentError
from agent.records import (
    SCHEMA_VERSION,
    Attempt,
    Completion,
    Evaluation,
    Feedback,
    Message,
    Move,
    Problem,
    Prompt,
    Record,
    RetryScheduled,
    Unconfirmed,
    Unjudged,
)
from agent.store import history
from agent.store.folder import Run, RunInfo
from agent.store.log import Log, Round
from agent.store.summary import RunState, state_of


class PromptDocument(Record):
    """One question, as it was sent."""

    id: str
    """The request hash: sha256 of roles and contents."""
    template: str
    """Which prompt it is: `generate`, `repair`, `optimise` or `combine`."""
    messages: tuple[Message, ...]


class AttemptDocument(Attempt):
    """A candidate with its verdict, and its place in the run."""

    id: str
    """Of the candidate, from its content; `candidate.parent` of a later attempt names it."""
    made_from: int | None
    """Number of the attempt it was made from; null for a first answer."""
    change: history.Change | None
    """Against that attempt, in lines; null without one or where a source is too long to compare."""
    judged: datetime | None
    """When the verdict was on disk, UTC."""
    seconds: float | None
    """What judging took."""
    first: Evaluation | None
    """What the first look said, where `evaluation` is the verdict of a second one; else null."""
    second_look_seconds: float | None
    """What the second look took, beside the search."""
    speedup: float | None
    """Against the fastest measured baseline; null unless it was measured."""


class RoundDocument(Record):
    """One question, its answer, and what became of it."""

    round: int
    """Counted from 1."""
    move: Move | None = None
    """Which rounds it goes on from, and with which idea; null where its prompt does not read."""
    prompt: PromptDocument | None
    completion: Completion | None
    """Null when no answer was received."""
    rejected: Feedback | None
    """Set when the answer held no candidate; the round is spent."""
    retries: tuple[RetryScheduled, ...]
    """How often the endpoint had to be asked again, and why."""
    attempts: tuple[AttemptDocument, ...]
    """The answer's candidate first, then its mends."""
    unjudged: tuple[Unjudged, ...] = ()
    """Candidates that a fault of ours or of the machine kept from being judged: no mistakes of theirs."""
    unconfirmed: tuple[Unconfirmed, ...] = ()
    """Second looks at these attempts that such a fault kept from being made."""


class DamagedLine(Record):
    """A line of events.jsonl that does not read, and is not in this document."""

    line: int
    """Counted from 1."""
    reason: str


class RunDocument(Record):
    """The whole document."""

    schema_version: int = SCHEMA_VERSION
    """Of this document; older runs are exported in this version's shape."""
    id: str
    path: str
    """The run's folder."""
    run: RunInfo | None
    """run.toml; null when it is damaged."""
    state: RunState
    """`killed`: it has no end and nobody writes it; `recorded`: kept for good, whatever its end."""
    outcome: str | None
    """How it ended, by its last event: `verified`, `no_kernel`, `budget`, `interrupted`, `failed`."""
    reason: str | None
    """The same in a sentence."""
    best: int | None
    """Number of the best verified attempt."""
    problem: Problem | None
    """The reference with its trace; null when the run stopped before it began."""
    began: datetime | None
    """Time of the first event, UTC."""
    last: datetime | None
    """Time of the last event, UTC."""
    totals: history.Totals
    rounds: tuple[RoundDocument, ...]
    """With `--round N` that one alone."""
    damage: tuple[DamagedLine, ...]
    cut: bool
    """The last line was being written when the process died, and is left out."""


def document(run: Run, log: Log, told: history.History) -> RunDocument:
    """The run as one record. A run.toml that does not read is null."""
    try:
        info: RunInfo | None = run.info
    except AgentError:
        info = None
    return RunDocument(
        id=run.id,
        path=str(run.path),
        run=info,
        state=state_of(run, log),
        outcome=log.finished.outcome if log.finished else None,
        reason=log.finished.reason if log.finished else None,
        best=told.best,
        problem=log.started.problem if log.started else None,
        began=told.began,
        last=told.last,
        totals=told.totals,
        rounds=tuple(_round(entry, told) for entry in log.rounds),
        damage=tuple(DamagedLine(line=damage.line, reason=damage.reason) for damage in log.problems),
        cut=log.cut,
    )


def _round(entry: Round, told: history.History) -> RoundDocument:
    return RoundDocument(
        round=entry.number,
        move=entry.move,
        prompt=_prompt(entry.prompt) if entry.prompt else None,
        completion=entry.completion,
        rejected=entry.rejected,
        retries=entry.retries,
        attempts=tuple(_attempt(made) for made in told.entries if made.round == entry.number),
        unjudged=entry.unjudged,
        unconfirmed=tuple(look for look in entry.second_looks if isinstance(look, Unconfirmed)),
    )


def _prompt(prompt: Prompt) -> PromptDocument:
    return PromptDocument(id=prompt.id, template=prompt.template, messages=prompt.messages)


def _attempt(entry: history.Entry) -> AttemptDocument:
    attempt = entry.attempt
    return AttemptDocument(
        number=attempt.number,
        candidate=attempt.candidate,
        evaluation=attempt.evaluation,
        id=attempt.candidate.id,
        made_from=entry.parent,
        change=entry.change,
        judged=entry.judged,
        seconds=entry.seconds,
        first=entry.first,
        second_look_seconds=entry.second_look_seconds,
        speedup=entry.speedup,
    )
