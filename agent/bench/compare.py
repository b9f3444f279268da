"""Comparison of two benches over the same problems, with tests for differences beyond chance."""

import math
from collections.abc import Sequence

from agent.bench import estimates
from agent.bench.estimates import Estimate
from agent.bench.outcome import Outcome, by_problem
from agent.bench.report import Report
from agent.errors import UsageError
from agent.records import Record

DOUBT = 0.05
"""Significance level: a difference whose probability by chance is at least this counts as noise."""


class Change(Record):
    """Speed difference on one problem for which both benches have a timed, verified kernel."""

    address: str
    ratio: float
    """Speed of B's best kernel over A's, each against its own best baseline; above 1, B's is faster."""
    beyond_noise: bool
    """True if the intervals of the two speedups do not overlap."""


class Comparison(Record):
    """Comparison of bench B with bench A."""

    common: int
    """Number of problems that are in both benches; only these are compared."""
    only_a: tuple[str, ...]
    """Problems for which only bench A has a verified kernel."""
    only_b: tuple[str, ...]
    solved_p: float
    """Probability that chance alone splits the problems solved by one bench only at least as unevenly.

    McNemar's exact test, two-sided.
    """
    ratio: Estimate | None
    """Geometric mean of the speed ratios with its interval; None if no problem was timed in both benches."""
    changes: tuple[Change, ...]
    """Changes by problem, the largest difference first."""
    remarks: tuple[str, ...]
    """Differences that limit the comparison: other GPUs, scopes, settings."""

    @property
    def differs(self) -> bool:
        """Return True if anything differs beyond noise."""
        return self.solved_p < DOUBT or (
            self.ratio is not None and not self.ratio.low <= 1 <= self.ratio.high
        )


def compare(a: Report, b: Report) -> Comparison:
    """Compare two reports. Raises UsageError if they have no problem in common."""
    in_a, in_b = by_problem(a.outcomes), by_problem(b.outcomes)
    common = [address for address in in_a if address in in_b]
    if not common:
        raise UsageError("the two benches have no problem in common")
    solved_a = {address for address in common if any(one.verified for one in in_a[address])}
    solved_b = {address for address in common if any(one.verified for one in in_b[address])}
    only_a = tuple(one for one in common if one in solved_a - solved_b)
    only_b = tuple(one for one in common if one in solved_b - solved_a)
    pairs = [(address, _fastest(in_a[address]), _fastest(in_b[address])) for address in common]
    changes = [_change(address, one, other) for address, one, other in pairs if one and other]
    changes.sort(key=lambda change: -abs(math.log(change.ratio)))
    return Comparison(
        common=len(common), only_a=only_a, only_b=only_b, solved_p=_by_chance(len(only_a), len(only_b)),
        ratio=estimates.geometric_mean([change.ratio for change in changes]), changes=tuple(changes),
        remarks=_remarks(a, b),
    )  # fmt: skip


def _fastest(samples: Sequence[Outcome]) -> Outcome | None:
    timed = [one for one in samples if one.verified and one.speedup() is not None]
    return max(timed, key=lambda one: one.speedup() or 0.0, default=None)


def _change(address: str, a: Outcome, b: Outcome) -> Change:
    fast_a, fast_b = a.speedup(), b.speedup()
    assert fast_a is not None
    assert fast_b is not None
    one, other = a.speedup_interval, b.speedup_interval
    apart = bool(one and other and (one[1] < other[0] or other[1] < one[0]))
    return Change(address=address, ratio=fast_b / fast_a, beyond_noise=apart)


def _by_chance(one: int, other: int) -> float:
    """Return the two-sided binomial probability of a split at least as uneven, both sides equally likely."""
    n = one + other
    tail = sum(math.comb(n, k) for k in range(min(one, other) + 1))
    return min(1.0, 2.0 * tail / float(2**n))


def _remarks(a: Report, b: Report) -> tuple[str, ...]:
    remarks = []
    if a.gpus != b.gpus:
        remarks.append(f"timed on {', '.join(a.gpus) or 'no GPU'} and on {', '.join(b.gpus) or 'no GPU'}")
    if set(a.scopes) != set(b.scopes):
        remarks.append("the verdicts do not cover the same (see the scopes in each report)")
    one, other = a.bench.asked, b.bench.asked
    if one.samples != other.samples:
        remarks.append(f"{one.samples} and {other.samples} runs of each problem: more runs find more")
    if one.checks != other.checks:
        remarks.append("other checks were asked for")
    return tuple(remarks)
