"""Estimators against counting, and against published values."""

import itertools
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.bench import estimates


@pytest.mark.parametrize(("samples", "right"), [(4, 0), (4, 1), (5, 2), (6, 5), (3, 3)])
def test_pass_at_k_is_the_share_of_all_choices(samples: int, right: int) -> None:
    answers = [index < right for index in range(samples)]
    for k in range(1, samples + 1):
        chosen = [any(some) for some in itertools.combinations(answers, k)]
        assert estimates.pass_at_k(samples, right, k) == pytest.approx(statistics.fmean(chosen))


@pytest.mark.parametrize(("samples", "right", "k"), [(3, 1, 4), (3, 4, 1), (3, 1, 0), (0, 0, 1)])
def test_pass_at_k_of_more_than_there_is_is_refused(samples: int, right: int, k: int) -> None:
    with pytest.raises(ValueError, match="pass@"):
        estimates.pass_at_k(samples, right, k)


@pytest.mark.parametrize(
    ("right", "n", "low", "high"),
    # Newcombe 1998, table I, method 3.
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilsons_interval_is_the_published_one(right: int, n: int, low: float, high: float) -> None:
    found = estimates.wilson(right, n)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((low, high), abs=5e-5)


def test_nothing_has_no_figure() -> None:
    assert estimates.wilson(0, 0) is None
    assert estimates.geometric_mean([]) is None
    assert estimates.fast([], 1.0) is None


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=30))
def test_an_interval_holds_its_figure_and_is_the_same_again(values: list[float]) -> None:
    found = estimates.geometric_mean(values)
    assert found == estimates.geometric_mean(values)
    assert found is not None
    assert found.low <= found.value * (1 + 1e-9)
    assert found.value <= found.high * (1 + 1e-9)
    assert found.value == pytest.approx(statistics.geometric_mean(values))


def test_a_speedup_and_its_inverse_are_even() -> None:
    found = estimates.geometric_mean([4.0, 0.25, 3.0, 1 / 3])
    assert found is not None
    assert found.value == pytest.approx(1.0)


def test_fast_p_counts_every_problem_once() -> None:
    speeds: list[list[float | None]] = [[2.0, None], [0.5, 0.5], [None], [1.5, 3.0]]
    at = {p: found.value for p in (0.4, 1.0, 2.5) if (found := estimates.fast(speeds, p))}
    assert at == pytest.approx({0.4: (0.5 + 1 + 0 + 1) / 4, 1.0: (0.5 + 0 + 0 + 1) / 4, 2.5: 0.5 / 4})
    exactly = estimates.fast([[1.0]], 1.0)
    assert exactly is not None
    assert exactly.value == 0.0, "no faster is not fast"
