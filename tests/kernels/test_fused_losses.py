"""Patterns that end a model or stand in networks of images: a linear layer's loss, pairs with other norms."""

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from agent.kernels import linear_cross_entropy, replace_modules
from agent.kernels.fusing import losses

pytestmark = pytest.mark.usefixtures("taken")
X = torch.linspace(-2, 3, 2 * 5 * 8).view(2, 5, 8)
TARGET = torch.tensor([[1, -100, 3, 0, 2], [2, 2, -100, 1, 0]])


class Head(nn.Module):
    """The loss of a language model, whose logits become rows in one of the usual ways."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.body, self.head, self.criterion, self.way = (
            nn.Linear(8, 6),
            nn.Linear(6, 4),
            nn.CrossEntropyLoss(),
            way,
        )

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        logits, flat = self.head(torch.tanh(self.body(x))), target.view(-1)
        if self.way == "size":
            return F.cross_entropy(logits.view(-1, logits.size(-1)), flat, label_smoothing=0.1)
        if self.way == "shape":
            return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), flat, reduction="sum")
        if self.way == "number":
            return F.cross_entropy(input=logits.view((-1, 4)), target=flat, ignore_index=-100)
        loss: torch.Tensor = self.criterion(logits.flatten(0, 1), flat)
        return loss


def _step(model: Any, *arguments: torch.Tensor) -> list[torch.Tensor]:
    value = model(*arguments)
    return [value, *torch.autograd.grad(value.square().sum(), list(model.parameters()))]


@pytest.mark.parametrize("way", ["size", "shape", "number", "module"])
def test_a_linear_layer_and_its_loss(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Head(way)
    native = copy.deepcopy(model)
    done = replace_modules(model, (X, TARGET))
    [(label, fusion)] = done.fused.items()
    assert label.startswith("the model itself: head + ")
    assert (fusion.pattern, fusion.kernel) == ("linear + cross entropy", "linear_cross_entropy")
    calls: list[int] = []

    def counted(*arguments: Any, **options: Any) -> torch.Tensor:
        calls.append(1)
        return linear_cross_entropy(*arguments, **options)

    monkeypatch.setattr(losses, "linear_cross_entropy", counted)
    torch.testing.assert_close(_step(model, X, TARGET), _step(native, X, TARGET))
    assert calls == [1]
    done.restore()
    _step(model, X, TARGET)
    assert calls == [1]


def test_logits_that_are_a_result_too_stay() -> None:
    class Both(Head):
        def forward(self, x: torch.Tensor, target: torch.Tensor) -> Any:
            logits = self.head(self.body(x))
            return F.cross_entropy(logits.view(-1, 4), target.view(-1)), logits

    done = replace_modules(Both("none"), (X, TARGET))
    assert done.fused == {}
    assert done.kept["the model itself: head + view + cross_entropy"] == (
        "what lies between is used elsewhere too"
    )


@pytest.mark.parametrize(
    "options", [{"reduction": "none"}, {"weight": torch.ones(4)}, {"size_average": True}]
)
@pytest.mark.filterwarnings("ignore:size_average")
def test_losses_of_another_kind_are_none(options: dict[str, Any]) -> None:
    class Other(Head):
        def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            logits = self.head(self.body(x)).view(-1, 4)
            return F.cross_entropy(logits, target.view(-1), **{**options, **self._weight(logits)})

        def _weight(self, logits: torch.Tensor) -> dict[str, Any]:
            return {"weight": self.criterion.bias} if "weight" in options else {}

    model = Other("none")
    model.criterion.bias = nn.Parameter(torch.ones(4))
    assert replace_modules(model, (X, TARGET)).fused == {}


def test_classes_in_the_second_dimension_stay() -> None:
    class Pixels(Head):
        def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            return F.cross_entropy(self.head(self.body(x)), target)

    done = replace_modules(Pixels("none"), (X, torch.zeros(2, 4, dtype=torch.int64)))
    assert done.fused == {}
    assert "its targets are not numbers of classes" in str(done)


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.BatchNorm1d(5), nn.BatchNorm1d(5, affine=False)
        self.act = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = F.silu(self.norm1(x))
        y: torch.Tensor = self.act(self.norm2(h * 2) + x)
        return y


def test_batch_norms_are_fused_and_learn_on() -> None:
    """In training torch computes the norm, and its running statistics go on."""
    model = Residual()
    native = copy.deepcopy(model)
    done = replace_modules(model, X)
    assert [fusion.pattern for fusion in done.fused.values()] == ["BatchNorm + activation", "BatchNorm + sum"]
    torch.testing.assert_close(model.state_dict(), native.state_dict(), rtol=0, atol=0)
    for training in (True, False, True):
        model.train(training)
        native.train(training)
        torch.testing.assert_close(_step(model, X), _step(native, X))
        torch.testing.assert_close(model.state_dict(), native.state_dict())


class Bottleneck(nn.Module):
    """As a ResNet is written: one ReLU in place for all, and a sum in place."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(5, 5, 3, padding=1), nn.Conv1d(5, 5, 1)
        self.bn1, self.bn2, self.relu = nn.BatchNorm1d(5), nn.BatchNorm1d(5), nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x
        y: torch.Tensor = self.relu(out)
        return y


@pytest.mark.parametrize("training", [False, True])
def test_what_is_changed_in_place_later_and_is_younger_stays_out_of_it(training: bool) -> None:
    model = nn.Sequential(Bottleneck(), Bottleneck()).train(training)
    native = copy.deepcopy(model)
    done = replace_modules(model, X)
    assert list(done.fused) == [
        f"{block}: {pair}" for block in (0, 1) for pair in ("bn1 + relu", "bn2 + iadd + relu")
    ]
    torch.testing.assert_close(_step(model, X), _step(native, X))


def test_what_is_changed_later_and_may_be_the_same_memory_forbids_it() -> None:
    class Older(Bottleneck):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = x * 2
            y = F.silu(self.bn1(h.view(2, 5, 8)))
            h.relu_()
            return y + h

    done = replace_modules(Older(), X)
    assert done.fused == {}
    assert done.kept["the model itself: bn1 + silu"] == "a tensor is changed in place between"


class Images(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.InstanceNorm1d(3, affine=True), nn.InstanceNorm1d(3)
        self.tracking = nn.InstanceNorm1d(3, track_running_stats=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = F.relu(self.norm1(x))
        h = F.silu(self.norm2(h * 2) + x)
        return torch.tanh(self.tracking(h))


def test_instance_norms() -> None:
    model = Images()
    native = copy.deepcopy(model)
    done = replace_modules(model, X[:, :3])
    assert [fusion.pattern for fusion in done.fused.values()] == [
        "InstanceNorm + activation", "InstanceNorm + sum", "InstanceNorm + activation"
    ]  # fmt: skip
    for training in (True, False):
        model.train(training)
        native.train(training)
        torch.testing.assert_close(_step(model, X[:, :3]), _step(native, X[:, :3]))
    torch.testing.assert_close(_step(model, X[0, :3]), _step(native, X[0, :3]))
    torch.testing.assert_close(model.state_dict(), native.state_dict())
