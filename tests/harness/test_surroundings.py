"""What draws vary around a call, and the parameters that a model holds whatever it tells."""

from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from agent.harness.worker import memory_guards, surroundings


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.BatchNorm1d(3)
        self.scale = nn.Parameter(torch.ones(3))

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return super().state_dict(*args, **kwargs) | {"scale": torch.zeros(3)}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale


def test_gradients_are_on_and_nothing_asks_for_one() -> None:
    model, threads = Model(), torch.get_num_threads()
    with surroundings.apply_conditions(model, SimpleNamespace(gradients=True, torch_threads=3)):
        assert torch.is_grad_enabled()
        assert torch.get_num_threads() == 3
        assert not model(torch.ones(3)).requires_grad
    assert torch.get_num_threads() == threads
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_a_call_without_conditions_records_no_gradients() -> None:
    with surroundings.apply_conditions(Model(), None):
        assert not torch.is_grad_enabled()


def test_parameters_are_those_that_modules_hold() -> None:
    model = Model()
    held = memory_guards.held(model)
    assert held["scale"] is model.scale
    assert held["inner.running_var"] is model.inner.running_var
    assert held.keys() == model.state_dict().keys()
