"""Faults of a state that is updated, and of what is not finite, are named with what they are about."""

from collections.abc import Callable

import pytest
import torch
from diagnosis.labels import PROBLEMS

from agent.harness.oracle import explanation
from agent.harness.truth.reference import Reference
from agent.records import Finding

Tensor = torch.Tensor


def _ema(decay: float, after: bool) -> Callable[..., tuple[Tensor, Tensor]]:
    def run(average: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        new = decay * average + (1 - decay) * x
        return new, (x - (new if after else average)).abs().sum(1)

    return run


def _stale(average: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    return average.clone(), (x - average).abs().sum(1)


def _empty_undefined(ids: Tensor, offsets: Tensor) -> Tensor:
    counts = torch.diff(offsets, append=torch.tensor([len(ids)]))
    return torch.where(counts[:, None] == 0, torch.nan, 1.0)


@pytest.mark.parametrize(
    ("wrong", "kind", "said"),
    [
        (_ema(0.9, True), "state-order", "input 0 read after its update"),
        (_ema(0.1, False), "wrong-decay", "complement"),
        (_stale, "state-not-updated", "not updated"),
    ],
    ids=["after its update", "complement", "not updated"],
)
def test_a_fault_of_a_state_is_named(wrong: Callable[..., object], kind: str, said: str) -> None:
    explained = _explained("ema_update", lambda inputs, truth: wrong(*inputs))
    assert explained["kind"] == kind, explained
    assert said in explained["message"]


def test_a_mean_over_nothing_is_where_it_is_undefined() -> None:
    explained = _explained("bag_mean", lambda inputs, truth: truth * _empty_undefined(*inputs))
    assert explained["kind"] == "overflow-to-nan", explained
    assert "0/0" in explained["message"]


def _explained(problem: str, wrong: Callable[..., object]) -> dict[str, str]:
    reference = Reference(PROBLEMS / f"{problem}.py", "cpu")
    reference.perturb(3)
    draw = reference.draw(4)
    assert draw is not None
    output = wrong(draw.inputs, draw.expected.native)
    found = Finding.model_validate(draw.expected.compare(output)["finding"])
    explained: dict[str, str] = explanation.Explaining(reference, "", found).of_values(draw, output)[
        "finding"
    ]
    return explained
