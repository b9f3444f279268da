"""A run as one JSON document, as `agent show RUN --json` prints it. See docs/viewer.md for each field.

The records in this module define that format: stored records unchanged, plus values derived from them.
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
    """One prompt as it was sent to the model."""

    id: str
    """Request hash: sha256 of roles and contents."""
    template: str
    """Name of the prompt template: `generate`, `repair`, `optimise` or `combine`."""
    messages: tuple[Message, ...]


class AttemptDocument(Attempt):
    """A candidate with its verdict and its place in the run."""

    id: str
    """Candidate id, derived from its content. `candidate.parent` of a later attempt refers to it."""
    made_from: int | None
    """Number of the parent attempt; null for a first answer."""
    change: history.Change | None
    """Lines changed since the parent; null without one or where a source is too long to compare."""
    judged: datetime | None
    """Time when the verdict was on disk, UTC."""
    seconds: float | None
    """Judging time in seconds."""
    first: Evaluation | None
    """Verdict of the first look, if `evaluation` is the verdict of a second one; otherwise null."""
    second_look_seconds: float | None
    """Duration in seconds of the second look, which runs in parallel with the search."""
    speedup: float | None
    """Speedup over the fastest measured baseline; null unless it was measured."""


class RoundDocument(Record):
    """One question, its answer and the resulting attempts."""

    round: int
    """Round number, counted from 1."""
    move: Move | None = None
    """Rounds that this one continues, and its idea; null where its prompt cannot be read."""
    prompt: PromptDocument | None
    completion: Completion | None
    """Answer of the model; null when none was received."""
    rejected: Feedback | None
    """Set when the answer held no candidate; the round still counts."""
    retries: tuple[RetryScheduled, ...]
    """Retries of the request to the endpoint, with their reasons."""
    attempts: tuple[AttemptDocument, ...]
    """The answer's candidate first, then its mends."""
    unjudged: tuple[Unjudged, ...] = ()
    """Candidates that a fault of kernelwright or of the machine kept from being judged."""
    unconfirmed: tuple[Unconfirmed, ...] = ()
    """Second looks at the round's attempts that a fault of kernelwright or of the machine prevented."""


class DamagedLine(Record):
    """A line of events.jsonl that cannot be read and is missing from this document."""

    line: int
    """Number of the line in events.jsonl, counted from 1."""
    reason: str


class RunDocument(Record):
    """A run with all its rounds, as one JSON document."""

    schema_version: int = SCHEMA_VERSION
    """Schema version of this document; older runs are exported in this version's format."""
    id: str
    path: str
    """Folder of the run."""
    run: RunInfo | None
    """Content of run.toml; null when it is damaged."""
    state: RunState
    """State of the run. `killed`: without an end and not being written. `recorded`: kept for good."""
    outcome: str | None
    """Outcome from the last event: `verified`, `no_kernel`, `budget`, `interrupted`, `failed`."""
    reason: str | None
    """Explanation of the outcome in a sentence."""
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
    """All rounds; with `--round N` only that one."""
    damage: tuple[DamagedLine, ...]
    cut: bool
    """True if the process died while writing the last line, which is then left out."""


def document(run: Run, log: Log, told: history.History) -> RunDocument:
    """Return the run as one record. A run.toml that cannot be read becomes null."""
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
