"""Summary of one run for lists of runs, made without opening a blob."""

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
    """Number of the attempt."""
    scope: Scope
    speedup: float | None = None
    """Speedup over the fastest baseline measured; None if nothing was measured."""


class RunSummary(NamedTuple):
    """One run as lists show it: a row of the store's index. Not a Record, as there are thousands of them."""

    id: str
    address: str
    """Name of the run on the command line: the id, or `recorded/NAME`."""
    state: RunState
    """State of the run. `killed`: no end and no writing process; resumable, like `interrupted` and `failed`.

    `recorded`: kept with the sources or shipped, whatever its end. `damaged`: run.toml cannot be read.
    """
    created: datetime | None = None
    """Creation time. None, like the run's settings, when run.toml is missing or damaged."""
    problem: str | None = None
    provider: str | None = None
    model: str | None = None
    executor: str | None = None
    planned_rounds: int | None = None
    rounds: int = 0
    """Number of rounds begun."""
    attempts: int = 0
    outcome: str | None = None
    """Outcome from the last event; None for a run without an end."""
    reason: str | None = None
    best_attempt: int | None = None
    """Number of the best verified attempt; None until something was verified."""
    best_scope: str | None = None
    """Scope of the best attempt as JSON, which `best` parses."""
    speedup: float | None = None
    """Speedup of the best attempt over the fastest baseline measured; None if nothing was measured."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    seconds: float | None = None
    """Seconds of answering and judging together."""
    partial: bool = False
    """True if some answers lack token counts, so that the tokens are lower bounds."""
    damaged_lines: int = 0

    @property
    def best(self) -> Best | None:
        """Return the best verified attempt with its scope."""
        if self.best_attempt is None or self.best_scope is None:
            return None
        scope = Scope.model_validate_json(self.best_scope)
        return Best(attempt=self.best_attempt, scope=scope, speedup=self.speedup)

    @property
    def tokens(self) -> int | None:
        """Return input and output tokens together, or None if no answer reported any."""
        known = [count for count in (self.input_tokens, self.output_tokens) if count is not None]
        return sum(known) if known else None


def state_of(run: Run, log: Log) -> RunState:
    """Derive the state from the lock and the last event, so that nothing has to mark a killed run."""
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
    """Return the summary of one run. Never raises: damage shows as its state or in `damaged_lines`."""
    info: RunInfo | None = None
    log = Log()
    state: RunState = "damaged"
    # The state reports the damage; `agent show` gives the reason.
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
        # An endpoint's message may hold a lone surrogate, which the index cannot store.
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
