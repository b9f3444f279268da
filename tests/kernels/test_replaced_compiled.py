"""What is replaced stays under torch.compile where the whole model gains there."""

import contextlib
import copy
import functools
import time
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
import torch
from torch import nn

from agent.kernels import replace_modules
from agent.kernels.fusing import whole
from agent.kernels.fusing.whole import Span
from agent.kernels.replaced import FORWARD, STEP

pytestmark = pytest.mark.usefixtures("taken")
X = torch.linspace(-2, 3, 2 * 4 * 33).view(2, 4, 33)


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv1d(4, 4, 3), nn.GroupNorm(2, 4), nn.SiLU(), nn.BatchNorm1d(4), nn.Dropout(0.5)
    )


def told(monkeypatch: pytest.MonkeyPatch, *spans: Span) -> None:
    """Has the model take these, one after the other."""
    left = list(spans)
    monkeypatch.setattr(whole, "span", lambda *_: left.pop(0))


def test_what_gains_stays_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told(monkeypatch, Span("a GPU", STEP, 5.0), Span("a GPU", STEP, 4.0))
    done = replace_modules(model(), X, compiled=True)
    assert list(done.fused) == ["the model itself: 1 + 2"]
    assert done.compiled is not None
    assert "takes: forward and backward 4 ms instead of 5 (a GPU)" in str(done)


@pytest.mark.parametrize("what", [STEP, FORWARD])
def test_what_loses_is_put_back(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told(monkeypatch, Span("a GPU", what, 5.0), Span("a GPU", what, 6.0))
    network = model()
    kinds = [type(module) for module in network.modules()]
    done = replace_modules(network, X, compiled=True)
    assert (done.fused, done.swapped, done.compiled) == ({}, {}, None)
    assert done.kept["the model itself"] == f"under torch.compile slower here: {what} 6 ms instead of 5"
    assert [type(module) for module in network.modules()] == kinds


def test_an_example_on_a_gpu_is_asked_for() -> None:
    with pytest.raises(ValueError, match="compiled=True times the model on an example, and there is none"):
        replace_modules(model(), compiled=True)
    with pytest.raises(ValueError, match="compiled=True times the model on a GPU, and the example has no"):
        replace_modules(model(), X, compiled=True)


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[torch.fx.GraphModule]:
    """What is compiled, on a CPU that passes for a GPU."""
    made: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, inputs: object) -> Callable[..., object]:
        made.append(graph)
        return graph.forward

    def in_a_row(call: Callable[[], object], runs: int) -> float:
        begin = time.perf_counter()
        for _ in range(runs):
            call()
        return 1e3 * (time.perf_counter() - begin) / runs

    monkeypatch.setattr(whole, "in_a_row", in_a_row)
    monkeypatch.setattr(whole, "SECONDS", 0.0)
    monkeypatch.setattr(whole, "_device", lambda leaves: torch.device("cpu"))
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend=backend))
    return made


@pytest.mark.parametrize(("training", "what"), [(True, STEP), (False, FORWARD)])
def test_what_counts_is_compiled_and_timed_and_leaves_the_model_as_it_was(
    training: bool, what: str, graphs: list[torch.fx.GraphModule]
) -> None:
    network = model().train(training)
    was, numbers = copy.deepcopy(network.state_dict()), torch.get_rng_state()
    made = whole.span(network, X)
    assert (made.gpu, made.what) == ("a GPU", what)
    assert made.ms > 0
    assert len(graphs) == 1
    assert torch.equal(torch.get_rng_state(), numbers)
    torch.testing.assert_close(network.state_dict(), was, rtol=0, atol=0)
    assert all(value.grad is None for value in network.parameters())


@pytest.mark.usefixtures("graphs")
def test_a_model_in_training_with_nothing_to_learn_is_timed_forward() -> None:
    assert whole.span(model().requires_grad_(False), X).what == FORWARD


class Writes(nn.Module):
    """Adds to its input in place, and answers places, which have no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(33, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.linear(x.add_(1)).argmax(-1)
        return y


@pytest.mark.usefixtures("graphs")
def test_the_example_stays_and_an_output_without_gradient_is_no_fault() -> None:
    x = X.clone()
    assert whole.span(Writes(), x).ms > 0
    assert torch.equal(x, X)


@pytest.mark.usefixtures("graphs")
def test_a_step_is_timed_where_the_caller_has_gradients_off(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []
    grad = torch.autograd.grad

    def counted(*given: Any, **named: Any) -> Any:
        steps.append(1)
        return grad(*given, **named)

    monkeypatch.setattr(torch.autograd, "grad", counted)
    with torch.no_grad():
        whole.span(model(), X)
    assert len(steps) == 1 + whole.RUNS * (whole.WARM + whole.FEWEST)


def refused(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Has no model compile once something is replaced."""
    span, calls = whole.span, count()

    def only_before(*given: Any) -> Span:
        if next(calls):
            raise error
        return span(*given)

    monkeypatch.setattr(whole, "span", only_before)


@pytest.mark.usefixtures("graphs")
def test_what_torch_compile_does_not_take_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    network = model()
    kinds, value = [type(module) for module in network.modules()], network.eval()(X)
    refused(monkeypatch, RuntimeError("no\nkernel"))
    done = replace_modules(network, X, compiled=True)
    wanted = "torch.compile does not take what was replaced: RuntimeError: no kernel"
    assert done.kept["the model itself"] == wanted
    assert [type(module) for module in network.modules()] == kinds
    assert torch.equal(network(X), value)


@pytest.mark.usefixtures("graphs")
def test_an_interrupt_leaves_the_model_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    network = model()
    kinds = [type(module) for module in network.modules()]
    refused(monkeypatch, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        replace_modules(network, X, compiled=True)
    assert [type(module) for module in network.modules()] == kinds
