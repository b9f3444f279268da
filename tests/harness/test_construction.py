"""Large parameters that are overwritten anyway are not initialised; all others are, as always."""

import pytest
import torch

from agent.harness.worker import construction


def test_small_modules_are_initialised_as_always() -> None:
    torch.manual_seed(1)
    expected = torch.nn.Linear(8, 8).weight.clone()
    torch.manual_seed(1)
    with construction.skip_initialisation({"weight": torch.empty(8, 8)}):
        made = torch.nn.Linear(8, 8)
    assert torch.equal(made.weight, expected)


def test_large_parameters_are_left_to_the_state_that_replaces_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(construction, "LARGE_BYTES", 64)
    before = torch.nn.init.kaiming_uniform_
    with construction.skip_initialisation({"weight": torch.ones(8, 8)}):
        assert torch.nn.init.kaiming_uniform_ is not before
        made = torch.nn.Linear(8, 8, bias=False)
    assert torch.nn.init.kaiming_uniform_ is before
    made.load_state_dict({"weight": torch.ones(8, 8)})
    assert torch.equal(made.weight, torch.ones(8, 8))


def test_a_constructor_that_raises_leaves_torch_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(construction, "LARGE_BYTES", 64)
    before = torch.nn.init.normal_
    with (
        pytest.raises(ValueError, match="no model"),
        construction.skip_initialisation({"weight": torch.ones(8, 8)}),
    ):
        raise ValueError("no model")
    assert torch.nn.init.normal_ is before
