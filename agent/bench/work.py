"""Execution of a bench: begins or resumes each unfinished task within the common limits."""

import time
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from agent.api.checks import Checks
from agent.api.choices import Choices
from agent.api.listening import Listener
from agent.bench import candidates, faults
from agent.bench.folder import Bench, Limits
from agent.bench.outcome import Outcome, Task, outcome, outcomes, tasks
from agent.bench.pool import Pool
from agent.bench.worker import Done, News, Order
from agent.errors import BudgetExceeded, EndpointError
from agent.records import Record

FATAL_IN_A_ROW = 3
"""Number of consecutive runs with an endpoint failure after which the bench is aborted."""
TURN_S = 1.0


class Used(Record):
    """Tokens and dollars that all runs of a bench have used together."""

    tokens: int = 0
    cost_usd: float = 0.0

    @classmethod
    def by(cls, found: Collection[Outcome]) -> "Used":
        return cls(
            tokens=sum((one.tokens or 0) + one.lost_tokens for one in found),
            cost_usd=sum((one.cost_usd or 0.0) + one.lost_cost_usd for one in found),
        )


class Share(Record):
    """Usage that one run is allowed; None means no limit."""

    tokens: int | None = None
    cost_usd: float | None = None
    seconds: float | None = None

    @property
    def empty(self) -> bool:
        return any(part is not None and part <= 0 for part in (self.tokens, self.cost_usd, self.seconds))

    def flags(self, before: Outcome) -> dict[str, object]:
        """Return the share as limits of a run; for a resumed run, add what it has used `before`."""
        given = {
            "max_tokens": (self.tokens, before.tokens),
            "max_cost": (self.cost_usd, before.cost_usd),
            "max_time": (self.seconds, before.seconds),
        }
        return {
            name: part + (used or 0 if before.resumable else 0)
            for name, (part, used) in given.items()
            if part is not None
        }


def share(
    limits: Limits, used: Used, open_shares: Iterable[Share], *, seconds_left: float | None, waiting: int
) -> Share:
    """Return one run's equal part of the limits left after the shares of runs in progress are reserved.

    `waiting` is the number of runs that have not begun, including this one. `seconds_left` is for all
    processes together.
    """
    aside = tuple(open_shares)
    tokens = cost = None
    if limits.tokens is not None:
        tokens = (limits.tokens - used.tokens - sum(one.tokens or 0 for one in aside)) // waiting
    if limits.cost_usd is not None:
        cost = (limits.cost_usd - used.cost_usd - sum(one.cost_usd or 0.0 for one in aside)) / waiting
    return Share(
        tokens=tokens, cost_usd=cost, seconds=None if seconds_left is None else seconds_left / waiting
    )


def carry(bench: Bench, pool: Pool, jobs: int, told: Listener, service: str | None = None) -> None:
    """Make the missing runs and resume the interrupted ones.

    `service` is the URL of a service that judges in place of this machine; runs do not store it. Raises
    BudgetExceeded if a limit left tasks undone, EndpointError if the endpoint failed several runs in a row.
    Verdicts until then are on disk, and the bench can be resumed.
    """
    _Work(bench, pool, jobs, told, service).carry()


class _Work:
    def __init__(self, bench: Bench, pool: Pool, jobs: int, told: Listener, service: str | None) -> None:
        self._bench, self._pool, self._jobs, self._told = bench, pool, jobs, told
        self._service = service
        self._asked = bench.info.asked
        self._tasks = {task.label: task for task in tasks(bench)}
        self._found = {one.label: one for one in outcomes(bench)}
        """Outcome of each task so far."""
        self._given = self._answers()
        self._waiting = [
            label
            for label, task in self._tasks.items()
            if not self._found[label].over
            and (not self._asked.candidates or (task.case.address, task.sample) in self._given)
        ]
        self._to_do = len(self._waiting)
        self._shares: dict[str, Share] = {}
        """Shares of the runs in progress."""
        self._fatal: list[str] = []
        self._begun_at = time.monotonic()
        self._judged_here = 0

    def _answers(self) -> dict[tuple[str, int], Path]:
        if self._asked.candidates is None:
            return {}
        return candidates.found(Path(self._asked.candidates), self._asked.cases, self._asked.samples)

    def carry(self) -> None:
        stopped = False
        while (self._waiting and not stopped) or self._pool.busy:
            while self._waiting and not stopped and self._pool.free:
                stopped = not self._begin()
            for message in self._pool.news(TURN_S):
                if isinstance(message, News):
                    self._update(message)
                else:
                    self._take(message)
            stopped = stopped or len(self._fatal) >= FATAL_IN_A_ROW
        if len(self._fatal) >= FATAL_IN_A_ROW:
            raise EndpointError(f"{self._fatal[-1]}; {self._resumable}")
        if self._waiting:
            raise BudgetExceeded(
                f"the budget is used up with {len(self._waiting)} runs not begun; {self._resumable}"
            )

    @property
    def _resumable(self) -> str:
        elsewhere = " --cluster ADDRESS" if self._service else ""
        return f"go on with: agent bench --resume {self._bench.id}{elsewhere}"

    def _begin(self) -> bool:
        """Begin the next task; return False if a limit leaves nothing for it."""
        label = self._waiting[0]
        left = share(
            self._asked.limits, Used.by(self._found.values()), self._shares.values(),
            seconds_left=self._seconds_left(), waiting=len(self._waiting),
        )  # fmt: skip
        if left.empty:
            return False
        self._waiting.pop(0)
        self._shares[label] = left
        self._pool.begin(self._order(self._tasks[label], left))
        return True

    def _seconds_left(self) -> float | None:
        """Return the remaining seconds of all processes together."""
        if self._asked.limits.seconds is None:
            return None
        left = self._asked.limits.seconds - (time.monotonic() - self._begun_at)
        return left * min(self._jobs, len(self._waiting))

    def _order(self, task: Task, left: Share) -> Order:
        before = self._found[task.label]
        return Order(
            label=task.label,
            address=task.case.address,
            runs_dir=self._bench.runs_dir,
            resume=self._bench.runs_dir / before.run if before.run and before.resumable else None,
            flags=self._flags(task) | left.flags(before),
            checks=Checks.model_validate(self._asked.checks),
            choices=Choices(label=task.label),
        )

    def _flags(self, task: Task) -> dict[str, object]:
        """Return the settings of a run. With given answers, they name the file with its answer."""
        flags = self._asked.flags | ({"executor": self._service} if self._service else {})
        if (file := self._given.get((task.case.address, task.sample))) is None:
            return flags
        return flags | {"provider": f"file:{file}"}

    def _take(self, done: Done) -> None:
        task = self._tasks[done.label]
        del self._shares[done.label]
        if done.fault:
            fault = faults.Fault(label=done.label, ending=done.ending, reason=done.fault)
            faults.note(self._bench.path, fault)
        one = self._found[done.label] = outcome(self._bench, task)
        self._fatal = [*self._fatal, done.fault] if done.fatal else []
        self._judged_here += 1
        speed = one.speedup()
        gained = f", {speed:.2f}x" if speed else ""
        why = f": {one.reason}" if one.reason else ""
        self._told.say(f"{self._done} of {len(self._tasks)}  {one.label}  {one.ending}{gained}{why}")

    @property
    def _done(self) -> int:
        return len(self._tasks) - self._to_do + self._judged_here

    def _update(self, news: News) -> None:
        busy = self._pool.busy
        others = f" and {len(busy) - 1} more" if len(busy) > 1 else ""
        self._told.update(
            f"{news.label}: {news.text}{others}{self._time_left()}", self._done, len(self._tasks)
        )

    def _time_left(self) -> str:
        if not self._judged_here:
            return ""
        each = (time.monotonic() - self._begun_at) / self._judged_here
        left = each * (self._to_do - self._judged_here)
        return f"; about {left / 60:.0f} min left" if left >= 90 else f"; about {left:.0f} s left"


def summary(found: Sequence[Outcome]) -> str:
    """Summarize the outcomes of all tasks in one line."""
    counted = {
        ending: sum(one.ending == ending for one in found)
        for ending in dict.fromkeys(o.ending for o in found)
    }
    return ", ".join(f"{count} {ending}" for ending, count in counted.items())
