"""Whole models with and without their pairs fused: values, gradients, and what was found."""

import copy

import pytest
import torch
from torch import nn

from agent.kernels import replace_modules
from benchmarks.kernels.architectures import ARCHITECTURES, Architecture

pytestmark = pytest.mark.usefixtures("taken")
FOUND = {
    "unet": {"GroupNorm + activation": 25},
    "decoder": {"sum + RMSNorm": 4, "gate * value": 2, "rotary embedding": 4, "embedding + norm": 1},
    "vit": {"sum + LayerNorm": 4},
}


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda one: one.name)
def test_values_and_gradients_of_a_whole_model(architecture: Architecture) -> None:
    torch.manual_seed(0)
    model, inputs = architecture.model(False), architecture.inputs(False)
    native = copy.deepcopy(model)
    done = replace_modules(model, inputs)
    found = [fusion.pattern for fusion in done.fused.values()]
    assert {name: found.count(name) for name in found} == FOUND[architecture.name]
    assert list(model.state_dict()) == list(native.state_dict())
    exact = [x.double() if x.is_floating_point() else x for x in inputs]

    def step(one: nn.Module) -> list[torch.Tensor]:
        value = one.double()(*exact)
        return [value, *torch.autograd.grad(value.square().mean(), list(one.parameters()))]

    torch.testing.assert_close(step(model), step(native))
