"""Pairs that stand in the forwards of two modules: found, swapped, guarded, and put back."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from agent.kernels import add_layer_norm, replace_modules, routing
from agent.kernels.fusing import patterns

pytestmark = pytest.mark.usefixtures("taken")
X = torch.linspace(-2, 3, 2 * 5 * 8).view(2, 5, 8)


class Layer(nn.Module):
    """Its last sum is the next layer's norm's."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear, self.rate = nn.LayerNorm(8), nn.Linear(8, 8), 0.5

    def forward(self, x: torch.Tensor, shift: torch.Tensor | None = None, scale: float = 1.0) -> torch.Tensor:
        h = F.dropout(torch.tanh(self.linear(self.norm(x))), self.rate, self.training)
        return x + h * scale if shift is None else x + h + shift


class Parts(Layer):
    """Gives a tuple, as decoders that keep more than one result do."""

    def forward(self, x: torch.Tensor, *, keep: bool = True) -> Any:  # type: ignore[override]
        h = self.linear(self.norm(x))
        return (x + h, h) if keep else x + h


class Stack(nn.Module):
    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.layers, self.norm = nn.ModuleList(layers), nn.LayerNorm(8)

    def forward(self, x: torch.Tensor, shift: torch.Tensor | None = None) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
            x = x[0] if isinstance(layer, Parts) else x
        y: torch.Tensor = self.norm(x)
        return y if shift is None else y + shift


def _stack(seed: int = 0) -> Stack:
    torch.manual_seed(seed)
    return Stack([Layer(), Layer()])


def _step(model: Any, *arguments: torch.Tensor) -> list[torch.Tensor]:
    torch.manual_seed(3)
    value = model.double()(*(one.double() for one in arguments))
    return [value, *torch.autograd.grad(value.pow(3).sum(), list(model.parameters()), allow_unused=True)]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each fused call."""
    seen: list[int] = []

    def counted(*arguments: Any) -> Any:
        seen.append(1)
        return add_layer_norm(*arguments)

    monkeypatch.setattr(patterns, "add_layer_norm", counted)
    return seen


def test_a_last_sum_and_the_next_norm(calls: list[int]) -> None:
    model = _stack()
    native, modules, names = copy.deepcopy(model), list(model.modules()), list(model.state_dict())
    done = replace_modules(model, X)
    assert list(done.fused) == [
        "the model itself: layers.0.add + layers.1.norm", "the model itself: layers.1.add + norm"
    ]  # fmt: skip
    assert done.kept == {}
    for training in (True, False):
        calls.clear()
        torch.testing.assert_close(_step(model.train(training), X), _step(native.train(training), X))
        assert len(calls) == 2
    assert list(model.state_dict()) == names
    done.restore()
    calls.clear()
    torch.testing.assert_close(_step(model, X), _step(native, X))
    assert calls == []
    assert [type(one) for one in model.modules()] == [type(one) for one in native.modules()]
    assert all(one is two for one, two in zip(model.modules(), modules, strict=True))


def test_every_level_fuses_its_own(calls: list[int]) -> None:
    """A pair is told of once, by the module that leads to both sides, and a whole model has them all."""
    torch.manual_seed(0)
    body = nn.Sequential(Layer(), nn.Sequential(Layer(), Layer()))
    model = nn.Sequential(nn.Linear(8, 8), body, nn.LayerNorm(8))
    native = copy.deepcopy(model)
    done = replace_modules(model, X)
    assert sorted(done.fused) == [
        "1.1: 0.add + 1.norm", "1: 0.add + 1.0.norm", "the model itself: 1.1.1.add + 2"
    ]  # fmt: skip
    calls.clear()
    torch.testing.assert_close(_step(model, X), _step(native, X))
    assert len(calls) == 3
    calls.clear()
    torch.testing.assert_close(_step(body, X), _step(native[1], X))
    assert len(calls) == 2


def test_a_layer_that_stands_twice_and_one_that_gives_a_tuple(calls: list[int]) -> None:
    torch.manual_seed(0)
    layer = Parts()
    model = Stack([layer, layer, Layer()])
    native = copy.deepcopy(model)
    assert len(replace_modules(model, X).fused) == 3
    calls.clear()
    torch.testing.assert_close(_step(model, X), _step(native, X))
    assert len(calls) == 3


def _looked_at(model: Any) -> None:
    model.layers[0].register_forward_hook(lambda *_: None)


def _by_hand(model: Any) -> None:
    model.layers[0].forward = lambda x: x + 1


def _compiled(model: Any) -> None:
    model.layers[1].compile(backend="eager")


CHANGES: dict[str, Callable[[Any], object]] = {
    "a hook": _looked_at,
    "a forward on the object": _by_hand,
    "an attribute": lambda model: setattr(model.layers[1], "rate", 0.25),
    "a child": lambda model: setattr(model.layers[1], "extra", nn.Tanh()),
    "another layer": lambda model: model.layers.__setitem__(1, nn.Linear(8, 8)),
    "one layer more": lambda model: model.layers.append(nn.Linear(8, 8)),
    "a layer that is compiled": _compiled,
}


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # which dynamo asks for at each layer's input
@pytest.mark.parametrize("name", CHANGES)
def test_what_changes_inside_sends_the_call_to_the_forward(name: str, calls: list[int]) -> None:
    torch._dynamo.reset()
    torch.manual_seed(5)
    model = _stack()
    native = copy.deepcopy(model)
    replace_modules(model, X)
    calls.clear()
    for one in (model, native):
        torch.manual_seed(6)
        CHANGES[name](one)
    torch.testing.assert_close(_step(model, X), _step(native, X))
    assert calls == []


def test_a_call_of_another_form_takes_the_forward(calls: list[int]) -> None:
    model = _stack()
    native = copy.deepcopy(model)
    replace_modules(model, X)
    calls.clear()
    torch.testing.assert_close(_step(model, X, X), _step(native, X, X))
    assert calls == []


def test_what_may_be_no_tensor_in_a_later_call_keeps_the_child_whole() -> None:
    class Loose(Stack):
        def forward(self, pair: tuple[torch.Tensor, Any]) -> torch.Tensor:  # type: ignore[override]
            x, shift = pair
            y: torch.Tensor = self.norm(self.layers[0](x, shift))
            return y

    model = Loose([Layer()]).eval()
    native = copy.deepcopy(model)
    done = replace_modules(model, ((X, X),))
    assert done.fused == {}
    for pair in ((X, X), (X, None)):
        torch.testing.assert_close(model(pair), native(pair))


def test_a_child_called_otherwise_than_it_was_traced_stays_a_call(calls: list[int]) -> None:
    class Scaled(Stack):
        def forward(self, x: torch.Tensor, shift: torch.Tensor | None = None) -> torch.Tensor:
            x = self.layers[0](x, scale=2.0)
            x = self.layers[0](x)
            y: torch.Tensor = self.norm(x)
            return y

    model = Scaled([Layer()]).eval()
    native = copy.deepcopy(model)
    done = replace_modules(model, X)
    # Of the two calls the first was traced; the second's sum is in a call that stays.
    assert list(done.fused) == []
    torch.testing.assert_close(_step(model, X), _step(native, X))


def test_a_default_is_not_what_the_first_call_gave() -> None:
    """A call that leaves an argument out is not of the form of one that gave it another value."""

    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.GroupNorm(5, 5)

        def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
            return F.silu(self.norm(x)) * scale

    model = Pair()
    native = copy.deepcopy(model)
    assert replace_modules(model, {"x": X, "scale": 0.5}).fused
    torch.testing.assert_close(model(X), native(X))
    torch.testing.assert_close(model(X, 0.5), native(X, 0.5))


class Judged(nn.Module):
    """A model and its loss, held by a module of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 4))

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.model(x).view(-1, 4), target.view(-1))


def test_a_head_and_the_loss_outside_of_it() -> None:
    model = Judged()
    native = copy.deepcopy(model)
    target = torch.arange(10).view(2, 5) % 4
    done = replace_modules(model, (X, target))
    assert list(done.fused) == ["the model itself: model.2 + view + cross_entropy"]
    for one in (model, native):
        one.double()
    values = [one(X.double(), target) for one in (model, native)]
    torch.testing.assert_close(*values)
    grads = [
        torch.autograd.grad(value, list(one.parameters()))
        for value, one in zip(values, (model, native), strict=True)
    ]
    torch.testing.assert_close(*grads)


def test_compiled_whole() -> None:
    torch._dynamo.reset()
    model = _stack().eval()
    native = copy.deepcopy(model)
    assert replace_modules(model, X).fused
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(_step(compiled, X), _step(native, X))


def test_half_precision_and_autocast() -> None:
    model = _stack().eval()
    native = copy.deepcopy(model)
    replace_modules(model, X)
    # The sum is of float32 and bfloat16 there, which the kernel leaves to torch.
    with torch.autocast("cpu", torch.bfloat16), pytest.warns(routing.Fallback, match="the residual has"):
        torch.testing.assert_close(model(X), native(X), rtol=2e-2, atol=2e-2)
    half, whole = model.bfloat16()(X.bfloat16()), native.bfloat16()(X.bfloat16())
    torch.testing.assert_close(half, whole, rtol=2e-2, atol=2e-2)
