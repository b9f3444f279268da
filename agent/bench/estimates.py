"""Estimators for the figures of a report, with intervals. Pure functions over numbers.

Sources: unbiased pass@k, Chen et al. 2021, arXiv:2107.03374, eq. 1; fast_p, Ouyang et al. 2025,
arXiv:2502.10517. The interval of a rate is Wilson's, 1927. The interval of a mean is a percentile bootstrap
over problems, Efron and Tibshirani 1993, ch. 13.
"""

import math
import random
from collections.abc import Callable, Sequence
from statistics import NormalDist, fmean, median

from agent.records import Record

LEVEL = 0.95
RESAMPLES = 2000
_Z = NormalDist().inv_cdf(0.5 + LEVEL / 2)


class Estimate(Record):
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float
    n: int
    """Number of values that the figure is made from."""


def pass_at_k(samples: int, right: int, k: int) -> float:
    """Return the probability that at least one of k samples is right, drawn from `samples`, `right` right.

    The estimate is unbiased in the sampling of answers. Raises ValueError if k exceeds `samples`.
    """
    if not 1 <= k <= samples or not 0 <= right <= samples:
        raise ValueError(f"pass@{k} of {right} right among {samples}")
    if samples - right < k:
        return 1.0
    return 1.0 - math.prod(1.0 - k / number for number in range(samples - right + 1, samples + 1))


def wilson(right: int, n: int) -> Estimate | None:
    """Return the share `right / n` with its interval, or None if n is 0."""
    if n == 0:
        return None
    share, z2 = right / n, _Z * _Z
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return Estimate(value=share, low=max(0.0, middle - half), high=min(1.0, middle + half), n=n)


def mean(values: Sequence[float]) -> Estimate | None:
    """Return the arithmetic mean, or None without values."""
    return _bootstrapped(values, fmean)


def geometric_mean(values: Sequence[float]) -> Estimate | None:
    """Return the geometric mean of positive values, or None without values."""
    found = mean([math.log(value) for value in values])
    if found is None:
        return None
    return Estimate(
        value=math.exp(found.value), low=math.exp(found.low), high=math.exp(found.high), n=found.n
    )


def middle(values: Sequence[float]) -> Estimate | None:
    """Return the median, or None without values."""
    return _bootstrapped(values, median)


def fast(speedups: Sequence[Sequence[float | None]], p: float) -> Estimate | None:
    """Return fast_p: the share of problems with a verified kernel more than p times as fast as its baseline.

    `speedups` holds the samples of each problem, with None for a sample that is not verified or not timed. A
    problem counts by the share of its samples, so that more samples do not make the figure larger.
    """
    shares = [fmean(s is not None and s > p for s in samples) for samples in speedups if samples]
    return mean(shares)


def _bootstrapped(values: Sequence[float], statistic: Callable[[Sequence[float]], float]) -> Estimate | None:
    if not values:
        return None
    # A fixed seed gives the same values the same interval in every report.
    draw = random.Random(len(values))
    found = sorted(statistic(draw.choices(values, k=len(values))) for _ in range(RESAMPLES))
    cut = round(RESAMPLES * (1 - LEVEL) / 2)
    return Estimate(value=statistic(values), low=found[cut], high=found[-cut - 1], n=len(values))
