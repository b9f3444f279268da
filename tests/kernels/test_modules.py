"""Modules that stand in for torch's, and putting them there."""

import copy
import runpy
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from kernels.dispatched import Recorder
from torch import nn

from agent.kernels import (
    GELU,
    AddLayerNorm,
    AddRMSNorm,
    BatchNorm2d,
    GateProduct,
    GroupNorm,
    InstanceNorm1d,
    InstanceNorm2d,
    LayerNorm,
    RMSNorm,
    Softmax,
    group_norm,
    replace_modules,
)
from agent.kernels import (
    ConvGroupNormTanhHardswishResidualLogSumExp as ConvLogSumExp,
)

REFERENCE = (
    Path(__file__).parents[2] / "references/level2/conv_group_norm_tanh_hardswish_residual_logsumexp.py"
)
PAIRS = [
    (BatchNorm2d, nn.BatchNorm2d, (4,), (3, 4, 5, 2)),
    (GroupNorm, nn.GroupNorm, (2, 4), (3, 4, 5)),
    (InstanceNorm1d, nn.InstanceNorm1d, (4, 1e-3, 0.1, True), (3, 4, 5)),
    (LayerNorm, nn.LayerNorm, ((4, 5),), (3, 4, 5)),
    (RMSNorm, nn.RMSNorm, (5,), (3, 4, 5)),
    (GELU, nn.GELU, ("tanh",), (3, 4)),
    (Softmax, nn.Softmax, (1,), (3, 4)),
]
EVERY = pytest.mark.parametrize(
    ("ours", "native", "arguments", "shape"), PAIRS, ids=[p[0].__name__ for p in PAIRS]
)
pytestmark = pytest.mark.usefixtures("taken")


@EVERY
def test_state_dicts_are_exchanged(
    ours: type[nn.Module], native: type[nn.Module], arguments: tuple[object, ...], shape: tuple[int, ...]
) -> None:
    theirs, mine = native(*arguments), ours(*arguments)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(torch.randn(parameter.shape))
    mine.load_state_dict(theirs.state_dict())
    assert list(mine.state_dict()) == list(theirs.state_dict())
    x = torch.randn(shape)
    torch.testing.assert_close(mine(x), theirs(x))
    assert repr(mine) == repr(theirs)


@EVERY
def test_from_torch_shares_parameters_and_hooks(
    ours: type[nn.Module], native: type[nn.Module], arguments: tuple[object, ...], shape: tuple[int, ...]
) -> None:
    theirs = native(*arguments)
    seen: list[int] = []
    theirs.register_forward_hook(lambda *_: seen.append(1))
    mine = ours.from_torch(theirs)  # type: ignore[attr-defined]
    mine(torch.randn(shape))
    assert isinstance(mine, ours)
    assert seen == [1]
    assert [id(p) for p in mine.parameters()] == [id(p) for p in theirs.parameters()]


class Custom(nn.LayerNorm):
    pass


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.GroupNorm(2, 8)
        self.rest = nn.Sequential(nn.GELU(), self.norm, Custom(4), nn.LayerNorm(4).double(), nn.Softmax())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.rest[:2](self.norm(self.conv(x)))
        return y


def test_replace_modules_swaps_and_says_what_stays() -> None:
    model, x = Net(), torch.randn(2, 3, 6, 6)
    before, state = model(x), list(model.state_dict())
    done = replace_modules(model)
    assert done.swapped == {"norm": "GroupNorm", "rest.0": "GELU", "rest.1": "GroupNorm"}
    assert model.rest[1] is model.norm
    assert done.kept == {
        "rest.2": "it is a Custom, which may do more than LayerNorm",
        "rest.3": "its parameters are float64",
        "rest.4": "it has no dim",
    }
    assert "rest.2: stays, it is a Custom" in str(done)
    assert list(model.state_dict()) == state
    torch.testing.assert_close(model(x), before)
    again = replace_modules(model)
    assert again.swapped == {}


def test_the_model_itself_is_not_swapped() -> None:
    done = replace_modules(nn.GroupNorm(2, 4))
    assert done.kept["the model itself"] == "it has no holder to swap it in: use GroupNorm.from_torch(model)"


def test_an_activation_and_a_residual() -> None:
    layer = GroupNorm(2, 4, act="silu")
    x, residual = torch.randn(2, 4, 3), torch.randn(2, 4, 3)
    wanted = nn.functional.silu(nn.functional.group_norm(x, 2) + residual)
    torch.testing.assert_close(layer(x, residual), wanted)
    torch.testing.assert_close(group_norm(x, 2, act="silu", residual=residual), wanted)
    assert repr(layer).endswith("act=silu)")


@pytest.mark.parametrize(("ours", "native"), [(AddLayerNorm, nn.LayerNorm), (AddRMSNorm, nn.RMSNorm)])
def test_the_norm_of_a_sum_shares_the_parameters_of_the_norm(
    ours: type[nn.Module], native: type[nn.Module]
) -> None:
    theirs, x, residual = native(5), torch.randn(3, 4, 5), torch.randn(3, 4, 5)
    mine = ours.from_torch(theirs)  # type: ignore[attr-defined]
    y, added = mine(x, residual)
    torch.testing.assert_close(added, x + residual)
    torch.testing.assert_close(y, theirs(x + residual))
    assert [id(p) for p in mine.parameters()] == [id(p) for p in theirs.parameters()]


def test_a_gate_of_two_tensors_or_of_halves() -> None:
    layer, x = GateProduct("gelu", gate_first=False), torch.randn(3, 6)
    value, gate = x.chunk(2, -1)
    wanted = nn.functional.gelu(gate) * value
    torch.testing.assert_close(layer(x), wanted)
    torch.testing.assert_close(layer(gate, value), wanted)
    assert repr(layer) == "GateProduct(act=gelu, gate_first=False)"
    with pytest.raises(ValueError, match="act='tanh': there are silu, gelu, gelu_tanh"):
        GateProduct("tanh")(x)
    with pytest.raises(ValueError, match=r"the last dimension of \(3, 5\) has no halves"):
        layer(x[:, :5])


def test_the_layers_of_the_fused_reference() -> None:
    reference = runpy.run_path(str(REFERENCE))
    theirs = reference["Model"](3, 4, 3, 2, 0.1)
    mine = ConvLogSumExp(3, 4, 3, 2, 0.1)
    mine.load_state_dict(theirs.state_dict())
    x = torch.randn(2, 3, 6, 7)
    torch.testing.assert_close(mine(x), theirs(x))


def test_a_training_step_in_a_network_under_compile() -> None:
    torch._dynamo.reset()
    model, x = Net(), torch.randn(2, 3, 6, 6, dtype=torch.float64)
    native = copy.deepcopy(model).double()
    replace_modules(model)
    model.double()
    wanted = torch.autograd.grad(native(x).square().sum(), list(native.conv.parameters()))
    compiled = torch.compile(model, backend="aot_eager")
    found = torch.autograd.grad(compiled(x).square().sum(), list(model.conv.parameters()))
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize(
    ("ours", "native"), [(BatchNorm2d, nn.BatchNorm2d), (InstanceNorm2d, nn.InstanceNorm2d)]
)
def test_running_statistics_are_used_in_evaluation(ours: type[nn.Module], native: type[nn.Module]) -> None:
    """And learnt in training, by torch."""
    options = {"affine": True, "track_running_stats": True}
    mine, theirs = ours(4, act="relu", **options), native(4, **options)
    for _ in range(2):
        x = torch.randn(3, 4, 5, 2) * 2 + 1
        torch.testing.assert_close(mine(x, x), F.relu(theirs(x) + x))
    torch.testing.assert_close(mine.state_dict(), theirs.state_dict())
    mine.eval()
    theirs.eval()
    x = torch.randn(3, 4, 5, 2, requires_grad=True)
    with Recorder() as seen:
        value = mine(x, x)
        found = torch.autograd.grad(value.square().sum(), (x, *mine.parameters()))
    wanted = F.relu(theirs(x) + x)
    torch.testing.assert_close(value, wanted)
    torch.testing.assert_close(
        found, torch.autograd.grad(wanted.square().sum(), (x, *theirs.parameters())), rtol=1e-4, atol=1e-4
    )
    assert [operator._opname for operator, _ in seen.calls] == ["batch_norm_forward", "batch_norm_backward"]


def test_instances_are_groups_of_one_channel() -> None:
    x = torch.randn(3, 4, 5, 2)
    torch.testing.assert_close(InstanceNorm2d(4, act="silu")(x), F.silu(F.instance_norm(x)))
    unbatched = torch.randn(4, 5)
    torch.testing.assert_close(InstanceNorm1d(4)(unbatched), nn.InstanceNorm1d(4)(unbatched))
    with pytest.raises(ValueError, match="more than 1 spatial element"):
        InstanceNorm2d(4)(torch.randn(3, 4, 1, 1))
