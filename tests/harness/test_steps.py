"""Results of rounding, comparison and choice are right if float errors can make them so."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from agent.harness.truth import steps, tolerance


def expected(run: Callable[[torch.Tensor], Any], x: torch.Tensor) -> tolerance.Expected:
    native, truth = run(x), run(x.double())
    displaced = steps.displacements(lambda: run(x), lambda: run(x.double()))
    rooms = None if displaced is None else steps.rooms(truth, displaced.results, (native, native))
    result = tolerance.Expected(native, native, truth, None, rooms)
    result.is_undefined = displaced is not None and displaced.is_undefined
    return result


def quantised(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scale = x.abs().amax(1, keepdim=True) / 127.0
    return torch.clamp(torch.round(x / scale), -128, 127).to(torch.int8), scale


X = torch.randn(128, 4096, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    "run",
    [
        quantised,
        lambda x: x > x.mean(1, keepdim=True),
        lambda x: (x * 0.29 * 100).to(torch.int32),
        lambda x: torch.round(x * 50000.0) / 50000.0,
        lambda x: torch.topk(x * 0.3 + 1, 8, dim=1).indices,
        lambda x: (x[:, :64] * 1e-3 + 1).argmax(1),
    ],
)
def test_the_float32_run_is_right(run: Callable[[torch.Tensor], Any]) -> None:
    wanted = expected(run, X)
    assert wanted.obstacle() is None
    assert wanted.accepts(tolerance.leaves(run(X)))


def test_a_step_too_far_is_wrong() -> None:
    wanted = expected(quantised, X)
    values, scale = quantised(X)
    off = values.clone()
    off[5, 7] += 2
    assert not wanted.accepts([off, scale])
    assert not wanted.accepts([values.roll(1, 1), scale])
    truncated = torch.clamp((X / scale).trunc(), -128, 127).to(torch.int8)
    assert not wanted.accepts([truncated, scale])


def test_an_exact_operand_has_one_result() -> None:
    x = torch.tensor([[0.5, -0.5, 1.5, 2.0] * 20])
    for run in (torch.round, lambda x: x > 0.5, torch.floor):
        wanted = expected(run, x)
        assert wanted.accepts([run(x)])
    assert not expected(lambda x: x > 0.5, x).accepts([x >= 0.5])
    assert not expected(torch.round, x).accepts([(x + 0.5).floor()])


def test_a_reference_without_steps_has_no_room() -> None:
    assert steps.displacements(lambda: torch.tanh(X), lambda: torch.tanh(X.double())) is None


def test_a_number_that_no_integer_holds_is_an_obstacle() -> None:
    x = torch.full((8, 8), 1e20)
    wanted = expected(lambda x: x.to(torch.int32), x)
    assert wanted.obstacle() == "the reference converts a number to an integer that cannot hold it"
