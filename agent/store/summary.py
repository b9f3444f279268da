"""One run in a few lines: what a list of runs shows, without opening a blob."""

from contextlib import suppress
from datetime import datetime
from typing import Literal, NamedTuple

from agent import ranking
from agent.errors import AgentError
from agent.records import Record, Scope
from agent.store import history
from agent.store.folder import Run, RunInfo
from agent.store.log import Log
from agent.store.writer import is_being_written

RunState = Literal["running", "finished", "interrupted", "failed", "killed", "damaged", "recorded"]


class Best(Record):
    """The best verified attempt of a run."""

    attempt: int
    """Its number."""
    scope: Scope
    speedup: float | None = None
    """Against the fastest baseline measured; None where nothing was."""


class RunSummary(NamedTuple):
    """One run as lists show it, a row of the store's index; no record, for there are thousands of them."""

    id: str
    address: str
    """What names it in a command: the id, or `recorded/NAME`."""
    state: RunState
    """`killed`: it has no end, and nobody writes it; resumable like `interrupted` and `failed`.

    `recorded`: kept beside the sources or shipped, whatever its end. `damaged`: run.toml does not read.
    """
    created: datetime | None = None
    """This and what was asked for is None when run.toml is missing or damaged."""
    problem: str | None = None
    provider: str | None = None
    model: str | None = None
    executor: str | None = None
    planned_rounds: int | None = None
    rounds: int = 0
    """Rounds that were begun."""
    attempts: int = 0
    outcome: str | None = None
    """As the last event says; None for a run without an end."""
    reason: str | None = None
    best_attempt: int | None = None
    """Number of the best verified attempt; None until something was verified."""
    best_scope: str | None = None
    """Its scope as JSON: `best` reads it."""
    speedup: float | None = None
    """Of the best attempt against the fastest baseline measured; None where nothing was."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    seconds: float | None = None
    """Answering and judging together."""
    partial: bool = False
    """Some answers came without their counts: the tokens are lower bounds."""
    damaged_lines: int = 0

    @property
    def best(self) -> Best | None:
        """The best verified attempt with its scope."""
        if self.best_attempt is None or self.best_scope is None:
            return None
        scope = Scope.model_validate_json(self.best_scope)
        return Best(attempt=self.best_attempt, scope=scope, speedup=self.speedup)

    @property
    def tokens(self) -> int | None:
        """Input and output together; None where no answer said."""
        known = [count for count in (self.input_tokens, self.output_tokens) if count is not None]
        return sum(known) if known else None


def state_of(run: Run, log: Log) -> RunState:
    """Derived from the lock and the last event, so that a killed run needs nobody to mark it."""
    if is_being_written(run.path):
        return "running"
    if run.recorded:
        return "recorded"
    if log.finished is None:
        return "killed"
    match log.finished.outcome:
        case "interrupted":
            return "interrupted"
        case "failed":
            return "failed"
        case _:
            return "finished"


def summary_of(run: Run) -> RunSummary:
    """The summary of one run. Never raises: what is damaged is said as its state or in `damaged_lines`."""
    info: RunInfo | None = None
    log = Log()
    state: RunState = "damaged"
    # The state says that it is damaged; `agent show` gives the reason.
    with suppress(AgentError):
        log = run.read(texts=False)
        info = run.info
        state = state_of(run, log)
    asked = info.settings if info else None
    best = ranking.best_of(log.attempts, log.finished)
    measurement = best.evaluation.measurement if best else None
    totals = history.totals(log)
    took = [part for part in (totals.answer_seconds, totals.judging_seconds) if part is not None]
    return RunSummary(
        id=run.id,
        address=run.address,
        state=state,
        created=info.created if info else None,
        problem=asked.problem_name if asked else None,
        provider=asked.provider if asked else None,
        model=asked.model if asked else None,
        executor=asked.executor if asked else None,
        planned_rounds=asked.rounds if asked else None,
        rounds=max((entry.number for entry in log.rounds), default=0),
        attempts=len(log.attempts),
        outcome=log.finished.outcome if log.finished else None,
        # An endpoint's words may hold half a character, which the index could not.
        reason=log.finished.reason.encode("utf-8", "replace").decode() if log.finished else None,
        best_attempt=best.number if best else None,
        best_scope=best.evaluation.scope.model_dump_json() if best else None,
        speedup=measurement.speedup if measurement else None,
        input_tokens=totals.input_tokens,
        output_tokens=totals.output_tokens,
        cost_usd=totals.cost_usd,
        seconds=sum(took) if took else None,
        partial=totals.partial,
        damaged_lines=len(log.problems),
    )
