"""What a candidate whose parameters have other names gets, so that it takes the reference's state_dict."""

import copy
from typing import Any

import pytest
import torch
from torch import nn

from agent.store.renaming import with_reference_names

SOURCE = """
import torch
from torch import nn


class Inner(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(size))
        self.register_buffer("mean", torch.zeros(size))

    def forward(self, x):
        return x + self.shift - self.mean


class ModelNew(nn.Module):
    def __init__(self, size):
        super(ModelNew, self).__init__()
        self.gamma = nn.Parameter(torch.ones(size))
        self.inner = Inner(size)

    def forward(self, x):
        return self.inner(x * self.gamma)
"""
NAMES = {"gn.weight": "gamma", "gn.bias": "inner.shift", "gn.running_mean": "inner.mean"}


@pytest.fixture
def model() -> Any:
    space: dict[str, Any] = {"__name__": "best"}
    exec(with_reference_names(SOURCE, NAMES), space)
    return space["ModelNew"](3)


def state() -> dict[str, torch.Tensor]:
    return {
        "gn.weight": torch.tensor([1.0, 2.0, 3.0]), "gn.bias": torch.full((3,), 10.0),
        "gn.running_mean": torch.full((3,), 0.5),
    }  # fmt: skip


def test_a_source_with_the_reference_names_stays_as_it_is() -> None:
    assert with_reference_names(SOURCE, {}) == SOURCE


def test_the_reference_state_is_loaded_and_given_back(model: Any) -> None:
    model.load_state_dict(state(), strict=True)
    assert model(torch.ones(3)).tolist() == [10.5, 11.5, 12.5]
    held = model.state_dict()
    assert set(held) == set(NAMES)
    assert all(torch.equal(held[name], tensor) for name, tensor in state().items())
    assert sorted(dict(model.named_parameters())) == ["gn.bias", "gn.weight"]
    assert [name for name, _ in model.named_buffers()] == ["gn.running_mean"]


def test_what_is_given_is_not_changed(model: Any) -> None:
    given = state()
    model.load_state_dict(given)
    assert list(given) == list(state())


def test_another_state_is_refused_as_ever(model: Any) -> None:
    with pytest.raises(RuntimeError, match="Unexpected key"):
        model.load_state_dict({**state(), "other": torch.ones(1)})


def test_it_works_within_another_module(model: Any) -> None:
    whole = nn.Sequential(model, copy.deepcopy(model))
    whole.load_state_dict({f"{n}.{name}": tensor for n in (0, 1) for name, tensor in state().items()})
    assert set(whole.state_dict()) == {f"{n}.{name}" for n in (0, 1) for name in NAMES}
    assert whole[0](torch.ones(3)).tolist() == [10.5, 11.5, 12.5]
