"""Outcome of each problem and sample of a bench, read from its runs."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from agent import ranking, store
from agent.bench import faults
from agent.bench.folder import Bench, runs_of
from agent.bench.suite import Case
from agent.records import Measurement, Record, RunFinished, Status
from agent.store import history

Ending = Literal["verified", "unsolved", "budget", "refused", "failed", "unfinished", "open"]
"""Ending of a task.

`unsolved`: no rounds left. `budget`: the task's share of the budget is used up. `open`: not begun.

`refused`: not a valid reference, or one that accepts wrong answers. `failed`: a fault of the environment or
the endpoint. `unfinished`: begun and not ended.
"""
BEST = "best"
"""The fastest baseline measured beside the kernel."""


class Task(Record):
    """One run that a bench has to make."""

    case: Case
    sample: int
    """Sample number, counted from 1."""

    @property
    def label(self) -> str:
        """Return the label of its run: `kernelbench:1/35#2`."""
        return f"{self.case.address}#{self.sample}"


class Outcome(Record):
    """Outcome of one task, that is, of one sample of a problem."""

    address: str
    group: str
    sample: int
    run: str | None = None
    ending: Ending = "open"
    reason: str = ""
    """Reason why there is no verified kernel: the headline of the last attempt, if there is one."""
    attempts: int = 0
    first: Status | None = None
    """Verdict on the first attempt."""
    statuses: dict[str, int] = {}
    """Number of attempts with each status."""
    scope: str = ""
    gpu: str | None = None
    """GPU on which the kernel was timed."""
    times_ms: dict[str, float] = {}
    """Median times in ms of `kernel` and of each baseline."""
    speedup_interval: tuple[float, float] | None = None
    """95 % interval of the speedup over the fastest baseline."""
    roofline: float | None = None
    """Share of the roofline that the kernel reaches."""
    tokens: int | None = None
    cost_usd: float | None = None
    lost_tokens: int = 0
    lost_cost_usd: float = 0.0
    """Tokens and cost of earlier runs of this task that came to no verdict and were replaced by this one."""
    answer_seconds: float | None = None
    judging_seconds: float | None = None
    gpu_seconds: float = 0.0
    seconds: float = 0.0
    """Wall-clock seconds over all processes that carried out the run."""
    resumable: bool = False
    """True if the run can be resumed. Otherwise, a run without a result is replaced by a new one."""

    @property
    def label(self) -> str:
        return f"{self.address}#{self.sample}"

    @property
    def verified(self) -> bool:
        return self.ending == "verified"

    @property
    def over(self) -> bool:
        """Return True if nothing is left to do for the task."""
        return self.ending in ("verified", "unsolved", "budget", "refused")

    def speedup(self, against: str = BEST) -> float | None:
        """Return the speedup over a baseline, or over the fastest one; None if it was not timed."""
        kernel = self.times_ms.get("kernel")
        bases = [ms for name, ms in self.times_ms.items() if name != "kernel" and against in (name, BEST)]
        return min(bases) / kernel if kernel and bases else None


def tasks(bench: Bench) -> tuple[Task, ...]:
    """Return the tasks in the order in which they begin: sample 1 of every problem, then sample 2, ..."""
    asked = bench.info.asked
    return tuple(
        Task(case=case, sample=sample) for sample in range(1, asked.samples + 1) for case in asked.cases
    )


def outcomes(bench: Bench) -> tuple[Outcome, ...]:
    """Return the outcome of each task, in the order of the tasks. Reads every run of the bench."""
    runs, noted = runs_of(bench), faults.read(bench.path)
    return tuple(_outcome(task, runs.get(task.label, ()), noted.get(task.label)) for task in tasks(bench))


def outcome(bench: Bench, task: Task) -> Outcome:
    """Return the outcome of one task."""
    return _outcome(task, runs_of(bench).get(task.label, ()), faults.read(bench.path).get(task.label))


def _outcome(task: Task, runs: Sequence[store.Run], fault: faults.Fault | None) -> Outcome:
    begun = Outcome(address=task.case.address, group=task.case.group, sample=task.sample)
    if not runs:
        return begun.model_copy(update={"ending": fault.ending, "reason": fault.reason}) if fault else begun
    *before, run = runs
    lost = [history.totals(other.read(texts=False)) for other in before]
    log = run.read(texts=False)
    attempts, best = log.attempts, ranking.best_of(log.attempts, log.finished)
    statuses = Counter(str(attempt.evaluation.status) for attempt in attempts)
    totals = history.totals(log)
    ending, reason = _ended(log.finished, fault)
    resumable = ending in ("unfinished", "failed")
    if ending == "unsolved" and not attempts and log.unjudged:
        ending, reason = "failed", log.unjudged[-1].reason
    spent = log.finished.spent if log.finished else None
    if best is None and attempts and ending == "unsolved":
        headline = attempts[-1].evaluation.headline
        reason = f"{attempts[-1].evaluation.status}: {headline.kind}" if headline else reason
    update: dict[str, object] = {
        "run": run.id, "resumable": resumable,
        "ending": ending, "reason": "" if ending == "verified" else reason,
        "attempts": len(attempts), "first": attempts[0].evaluation.status if attempts else None,
        "statuses": dict(sorted(statuses.items())),
        "tokens": totals.tokens, "cost_usd": totals.cost_usd, "answer_seconds": totals.answer_seconds,
        "judging_seconds": totals.judging_seconds,
        "lost_tokens": sum(one.tokens or 0 for one in lost),
        "lost_cost_usd": sum(one.cost_usd or 0.0 for one in lost),
        **({"gpu_seconds": spent.gpu_seconds, "seconds": spent.seconds} if spent else {}),
    }  # fmt: skip
    if best is not None:
        update["scope"] = str(best.evaluation.scope)
        update |= _measured(best.evaluation.measurement)
    return begun.model_copy(update=update)


def _ended(finished: RunFinished | None, fault: faults.Fault | None) -> tuple[Ending, str]:
    if finished is None:
        return "unfinished", fault.reason if fault else "it was killed"
    match finished.outcome:
        case "verified":
            return "verified", ""
        case "no_kernel":
            return "unsolved", finished.reason
        case "budget":
            return "budget", finished.reason
        case "failed":
            # A failed run with a verified kernel counts as verified: its best kernel is confirmed like any
            # other.
            return ("verified", "") if finished.best is not None else ("failed", finished.reason)
        case _:
            return "unfinished", finished.reason


def _measured(found: Measurement | None) -> dict[str, object]:
    if found is None:
        return {}
    times = {"kernel": found.candidate_ms.p50}
    times |= {name: base.p50 for name, base in found.baselines.items()}
    return {
        "times_ms": times, "gpu": found.gpu, "roofline": found.roofline_fraction,
        "speedup_interval": found.speedup_interval,
    }  # fmt: skip


def by_problem(found: Iterable[Outcome]) -> dict[str, tuple[Outcome, ...]]:
    """Group the samples by problem, in the order of the suite."""
    grouped: dict[str, list[Outcome]] = {}
    for one in found:
        grouped.setdefault(one.address, []).append(one)
    return {address: tuple(samples) for address, samples in grouped.items()}
