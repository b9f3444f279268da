"""What is replaced stays under torch.compile where the whole model gains there."""

import copy
import functools
import time
from collections.abc import Callable

import pytest
import torch
from torch import nn

from agent.kernels import replace_modules
from agent.kernels.fusing import whole
from agent.kernels.fusing.whole import Spans

pytestmark = pytest.mark.usefixtures("taken")
X = torch.linspace(-2, 3, 2 * 4 * 33).view(2, 4, 33)


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv1d(4, 4, 3), nn.GroupNorm(2, 4), nn.SiLU(), nn.BatchNorm1d(4), nn.Dropout(0.5)
    )


def told(monkeypatch: pytest.MonkeyPatch, *spans: Spans) -> None:
    """Has the model take these, one after the other."""
    left = list(spans)
    monkeypatch.setattr(whole, "spans", lambda *_: left.pop(0))


def test_what_gains_stays_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told(monkeypatch, Spans("a GPU", 2.0, 5.0), Spans("a GPU", 1.5, 4.0))
    done = replace_modules(model(), X, compiled=True)
    assert list(done.fused) == ["the model itself: 1 + 2"]
    assert done.compiled is not None
    wanted = "takes: forward 1.5 ms instead of 2, with backward 4 instead of 5 (a GPU)"
    assert wanted in str(done)


@pytest.mark.parametrize(
    ("training", "after", "why"),
    [(True, Spans("a GPU", 1.5, 6.0), "forward and backward 6 ms instead of 5"),
     (False, Spans("a GPU", 2.5, 4.0), "forward 2.5 ms instead of 2")],
)  # fmt: skip
def test_what_loses_is_put_back(
    training: bool, after: Spans, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told(monkeypatch, Spans("a GPU", 2.0, 5.0), after)
    network = model().train(training)
    kinds = [type(module) for module in network.modules()]
    done = replace_modules(network, X, compiled=True)
    assert (done.fused, done.swapped, done.compiled) == ({}, {}, None)
    assert done.kept["the model itself"] == f"under torch.compile slower here: {why}"
    assert [type(module) for module in network.modules()] == kinds


def test_an_example_on_a_gpu_is_asked_for() -> None:
    with pytest.raises(ValueError, match="compiled=True times the model on an example, and there is none"):
        replace_modules(model(), compiled=True)
    with pytest.raises(ValueError, match="compiled=True times the model on a GPU, and the example has no"):
        replace_modules(model(), X, compiled=True)


def test_spans_are_of_compiled_calls_and_leave_the_model_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def milliseconds(call: Callable[[], object]) -> float:
        begin = time.perf_counter()
        call()
        return 1e3 * (time.perf_counter() - begin)

    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, inputs: object) -> Callable[..., object]:
        graphs.append(graph)
        return graph.forward

    monkeypatch.setattr(whole, "queued", milliseconds)
    monkeypatch.setattr(whole, "_gpu", lambda leaves: "a GPU")
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend=backend))
    network = model()
    was, numbers = copy.deepcopy(network.state_dict()), torch.get_rng_state()
    made = whole.spans(network, X)
    assert min(made.forward, made.step) > 0
    assert len(graphs) == 2  # without gradients, and with them
    assert torch.equal(torch.get_rng_state(), numbers)
    torch.testing.assert_close(network.state_dict(), was, rtol=0, atol=0)
    assert all(value.grad is None for value in network.parameters())
