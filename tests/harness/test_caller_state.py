"""A candidate leaves the state of its caller as it was."""

import random
from collections.abc import Callable

import pytest
import torch

from agent.harness.worker import caller_state


@pytest.mark.parametrize(
    "change",
    [
        lambda: torch.set_grad_enabled(not torch.is_grad_enabled()),
        lambda: torch.manual_seed(random.randrange(1 << 40)),
        lambda: torch.set_default_dtype(torch.float64),
    ],
)
def test_a_switch_of_the_process_stays(change: Callable[[], object]) -> None:
    gradients, dtype, seed = torch.is_grad_enabled(), torch.get_default_dtype(), torch.initial_seed()
    try:
        assert callable(change)
        with pytest.raises(caller_state.Disturbed, match="forward changes"), caller_state.kept("forward"):
            change()
    finally:
        torch.set_grad_enabled(gradients)
        torch.set_default_dtype(dtype)
        torch.manual_seed(seed)


def test_switches_that_are_set_back_may_change() -> None:
    with caller_state.kept("forward"), torch.no_grad():
        torch.rand(3)


def test_an_input_gets_no_marks() -> None:
    x = torch.ones(3)
    caller_state.check_inputs([x, torch.arange(3)])
    x.requires_grad_(True)
    with pytest.raises(caller_state.Disturbed, match="input 0"):
        caller_state.check_inputs([x])


def test_an_output_is_expanded_only_as_the_reference_is() -> None:
    x = torch.ones(3, 1)
    caller_state.check_outputs([x, x.t()], may_overlap=False)
    caller_state.check_outputs([x.expand(3, 4)], may_overlap=True)
    with pytest.raises(caller_state.Disturbed, match="expanded"):
        caller_state.check_outputs([x.expand(3, 4)], may_overlap=False)


def test_outputs_outlive_the_module_that_returned_them() -> None:
    class Ruins(torch.nn.Module):
        def __init__(self, output: torch.Tensor) -> None:
            super().__init__()
            self.output = output

        def __del__(self) -> None:
            self.output.zero_()

    output = torch.ones(4)
    caller_state.released([torch.nn.Linear(2, 2)], [output], lambda: None)
    with pytest.raises(caller_state.Disturbed, match="collected"):
        caller_state.released([Ruins(output)], [output], lambda: None)
