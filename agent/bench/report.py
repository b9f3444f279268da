"""Figures of a bench, for each group of problems and for all: the JSON of `agent bench report`."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

from agent.bench import estimates
from agent.bench.estimates import Estimate
from agent.bench.folder import Bench, BenchInfo
from agent.bench.outcome import BEST, Outcome, by_problem, outcomes
from agent.records import BASELINES, Record

ALL = "all"
_NOTHING = re.compile(
    r"(?P<who>no kernel was composed|the catalogue has no kernel) for [^:]+: (?P<why>.*?)"
    r"(; to ask a model, .*)?",
    re.DOTALL,
)
"""Pattern of the message from providers without a model that have no kernel."""
THRESHOLDS = (0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)
"""Values of p in the fast_p curves."""
SCHEMA_VERSION = 1


class Speeds(Record):
    """Speedups over one baseline, from the verified kernels that were timed beside it."""

    baseline: str
    geometric_mean: Estimate
    median: Estimate
    fast: dict[str, Estimate]
    """Mapping from p to fast_p, over all problems of the group."""


class Spending(Record):
    """Usage of the runs. Values that no answer reported are not counted."""

    tokens: int
    cost_usd: float
    answer_hours: float
    judging_hours: float
    gpu_hours: float
    """Hours of judging on a GPU, including second looks, builds and waiting."""
    per_verified: dict[str, float]
    """Tokens, dollars and GPU-hours per run with a verified kernel."""
    per_faster: dict[str, float]
    """Tokens, dollars and GPU-hours per run with a kernel that is faster than the best baseline."""


class Group(Record):
    name: str
    problems: int
    samples: int
    """Number of runs over all problems of the group."""
    verified: int
    """Number of runs with a verified kernel."""
    solved: Estimate | None
    """Share of problems with a verified kernel in any run, with Wilson's interval."""
    pass_at: dict[str, Estimate]
    """Mapping from k to pass@k over the problems with at least k ended runs."""
    first_answer: Estimate | None
    """Share of runs whose first candidate was verified."""
    endings: dict[str, int]
    causes: dict[str, int]
    """Reasons why runs have no verified kernel, each with its number of runs, the most frequent first."""
    speeds: tuple[Speeds, ...]
    roofline: Estimate | None
    """Median share of the roofline that the verified kernels reach."""
    spending: Spending


class Report(Record):
    schema_version: int = SCHEMA_VERSION
    bench: BenchInfo
    gpus: tuple[str, ...]
    scopes: dict[str, int]
    """Number of verified kernels for each scope of their verdicts."""
    groups: tuple[Group, ...]
    """Figures of each group of problems, then of all problems."""
    outcomes: tuple[Outcome, ...]

    @property
    def whole(self) -> Group:
        return self.groups[-1]

    @property
    def created(self) -> datetime:
        return self.bench.created


def report(bench: Bench) -> Report:
    """Make the report from the current state of the runs. Raises UsageError for an unreadable bench."""
    return summed(bench.info, outcomes(bench))


def summed(info: BenchInfo, found: Sequence[Outcome]) -> Report:
    """Make the report on the given outcomes."""
    names = list(dict.fromkeys(one.group for one in found))
    groups = [_group(name, [one for one in found if one.group == name]) for name in names]
    whole = _group(ALL, found)
    scopes = Counter(one.scope for one in found if one.verified)
    return Report(
        bench=info,
        gpus=tuple(sorted({one.gpu for one in found if one.gpu})),
        scopes=dict(scopes.most_common()),
        groups=(*groups, whole) if len(groups) > 1 else (whole,),
        outcomes=tuple(found),
    )


def _group(name: str, found: Sequence[Outcome]) -> Group:
    problems = by_problem(found)
    verified = [one for one in found if one.verified]
    over = {address: [one for one in samples if one.over] for address, samples in problems.items()}
    judged = [one for one in found if one.first is not None]
    causes = Counter(_cause(one.reason) for one in found if one.reason)
    rooflines = [one.roofline for one in verified if one.roofline is not None]
    return Group(
        name=name,
        problems=len(problems),
        samples=len(found),
        verified=len(verified),
        solved=estimates.wilson(
            sum(any(one.verified for one in samples) for samples in problems.values()), len(problems)
        ),
        pass_at=_pass_at(list(over.values())),
        first_answer=estimates.wilson(sum(one.first == "verified" for one in judged), len(judged)),
        endings=dict(Counter(one.ending for one in found).most_common()),
        causes=dict(causes.most_common()),
        speeds=tuple(_speeds(list(problems.values()))),
        roofline=estimates.middle(rooflines),
        spending=_spending(found),
    )


def _cause(reason: str) -> str:
    """Remove the problem's name and the advice, so that problems with one cause share one line."""
    nothing = _NOTHING.fullmatch(reason)
    return f"{nothing['who']}: {nothing['why']}" if nothing else reason


def _pass_at(problems: Sequence[Sequence[Outcome]]) -> dict[str, Estimate]:
    most = max((len(samples) for samples in problems), default=0)
    found = {}
    for k in range(1, most + 1):
        chances = [
            estimates.pass_at_k(len(samples), sum(one.verified for one in samples), k)
            for samples in problems
            if len(samples) >= k
        ]
        if estimate := estimates.mean(chances):
            found[str(k)] = estimate
    return found


def _speeds(problems: Sequence[Sequence[Outcome]]) -> Iterable[Speeds]:
    for baseline in (BEST, *BASELINES):
        each = [[one.speedup(baseline) for one in samples] for samples in problems]
        known = [speed for samples in each for speed in samples if speed is not None]
        mean, middle = estimates.geometric_mean(known), estimates.middle(known)
        if mean is None or middle is None:
            continue
        curve = {str(p): fast for p in THRESHOLDS if (fast := estimates.fast(each, p))}
        yield Speeds(baseline=baseline, geometric_mean=mean, median=middle, fast=curve)


def _spending(found: Sequence[Outcome]) -> Spending:
    used = {
        "tokens": float(sum((one.tokens or 0) + one.lost_tokens for one in found)),
        "cost_usd": sum((one.cost_usd or 0.0) + one.lost_cost_usd for one in found),
        "gpu_hours": sum(one.gpu_seconds for one in found) / 3600,
    }
    verified = sum(one.verified for one in found)
    faster = sum((one.speedup() or 0.0) > 1 for one in found)
    return Spending(
        tokens=int(used["tokens"]),
        cost_usd=used["cost_usd"],
        answer_hours=sum(one.answer_seconds or 0.0 for one in found) / 3600,
        judging_hours=sum(one.judging_seconds or 0.0 for one in found) / 3600,
        gpu_hours=used["gpu_hours"],
        per_verified=_each(used, verified),
        per_faster=_each(used, faster),
    )


def _each(used: dict[str, float], count: int) -> dict[str, float]:
    return {name: amount / count for name, amount in used.items()} if count else {}
