"""Smaller sizes at which a condition still holds that only the candidate's code can tell."""

from collections.abc import Callable

import pytest

from agent.problems.lowering import lowered
from agent.problems.shrinking import Shrunken
from agent.problems.tracer import ReferenceFault, trace
from agent.records import Problem, TensorSpec, Trace

PRODUCT = """
import torch
import torch.nn as nn
batch_size = 1024
features_in = 8192
features_out = 8192
class Model(nn.Module):
    def __init__(self, features_in, features_out):
        super().__init__()
        self.linear = nn.Linear(features_in, features_out)
    def forward(self, x):
        return self.linear(x).relu()
def get_inputs():
    return [torch.rand(batch_size, features_in)]
def get_init_inputs():
    return [features_in, features_out]
"""


def problem(source: str = PRODUCT) -> Problem:
    return Problem(name="product", source=source, trace=trace(source))


def attempt(source: str) -> Trace | None:
    try:
        return trace(source)
    except ReferenceFault:
        return None


def shapes(sizes: Trace) -> tuple[int, int, int]:
    x, weight = sizes.inputs[0], sizes.state[0]
    assert isinstance(x, TensorSpec)
    return (*x.shape, weight.shape[0])  # type: ignore[return-value]


def found(holds: Callable[[int, int, int], bool], candidate: str = "") -> Shrunken | None:
    return lowered(problem(), candidate, attempt, lambda sizes: holds(*shapes(sizes)))


def test_each_size_goes_to_the_least_at_which_the_condition_holds() -> None:
    plan = found(lambda batch, k, n: batch % 128 == 0 and n % 128 == 0 and k == 8192)
    assert plan is not None
    # What differed differs still, so the last is not 128 as well; what was equal may part.
    assert shapes(plan.trace) == (128, 8192, 256)
    assert plan.sizes == {"batch_size": (1024, 128), "features_in": (8192, 8192), "features_out": (8192, 256)}
    assert trace(plan.source) == plan.trace
    assert not plan.full
    assert {1024, 1024 * 8192} <= set(plan.hard)


def test_sizes_of_one_value_go_together_where_they_may() -> None:
    plan = found(lambda batch, k, n: k % 64 == 0)
    assert plan is not None
    assert shapes(plan.trace) == (2, 64, 64)


def test_it_stops_once_a_run_is_cheap() -> None:
    # The batch goes first, and its least is cheap enough only with other widths.
    plan = found(lambda batch, k, n: k == n)
    assert plan is not None
    batch, k, n = shapes(plan.trace)
    assert batch == 2
    assert k == n < 8192


def test_a_size_that_the_candidate_holds_as_a_literal_stays_where_that_is_affordable() -> None:
    asked = problem(PRODUCT.replace("8192", "4096"))
    free = lowered(asked, "", attempt, lambda sizes: True)
    held = lowered(asked, "WIDTH = 4096\n", attempt, lambda sizes: True)
    assert free is not None
    assert held is not None
    assert shapes(free.trace)[1] < 4096
    assert shapes(held.trace) == (2, 4096, 4096)


def test_nothing_is_found_where_every_size_has_to_stay() -> None:
    assert found(lambda batch, k, n: (batch, k, n) == (1024, 8192, 8192)) is None


def test_sizes_that_cost_too_much_are_none() -> None:
    assert found(lambda batch, k, n: k == n == 8192 and batch >= 512) is None


def test_the_same_reference_gives_the_same_sizes() -> None:
    plans = [found(lambda batch, k, n: batch % 32 == 0 and n % 32 == 0) for _ in range(2)]
    assert plans[0] == plans[1]
    assert plans[0] is not None


@pytest.mark.parametrize("value", [5, 8, 130, 1000, 8192])
def test_values_to_try_begin_with_the_least(value: int) -> None:
    from agent.problems.lowering import _ladder

    tried = _ladder(value)
    assert tried == sorted(set(tried))
    assert tried[0] == 2
    assert all(2 <= one < value for one in tried)
    assert value % 2 or value // 2 in tried
