"""Weights that are split once, the linear layer over them, and what the fused operator leaves to torch."""

import copy
import gc

import pytest
import torch
from torch import nn

from agent.kernels import (
    LinearFP32x3,
    linear_fp32x3,
    linear_group_norm_min_bias,
    prepare_weight,
    sources,
)
from agent.kernels.linear_fp32x3 import prepared, product
from agent.kernels.matmul_fp32x3 import product as matmul
from agent.kernels.routing import Fallback

F = nn.functional


@pytest.fixture
def splits(monkeypatch: pytest.MonkeyPatch) -> list[torch.Size]:
    """The shapes of weights that were split, which the CPU has no use for otherwise."""
    seen: list[torch.Size] = []

    def split(weight: torch.Tensor) -> torch.Tensor:
        seen.append(weight.shape)
        return torch.empty(4 * weight.numel(), dtype=torch.uint8)

    monkeypatch.setattr(prepared, "_split", split)
    return seen


@pytest.mark.usefixtures("taken")
def test_a_prepared_weight_stands_in_for_the_weight(splits: list[torch.Size]) -> None:
    x, weight = torch.randn(3, 5), torch.randn(4, 5, requires_grad=True)
    ready = prepare_weight(weight)
    y = linear_fp32x3(x, ready)
    torch.testing.assert_close(y, F.linear(x, weight))
    (found,) = torch.autograd.grad(y.square().sum(), weight)
    (wanted,) = torch.autograd.grad(F.linear(x, weight).square().sum(), weight)
    torch.testing.assert_close(found, wanted)
    assert splits == [(4, 5)]


@pytest.mark.usefixtures("taken")
def test_a_prepared_weight_that_has_changed_is_refused() -> None:
    weight, bias = torch.randn(4, 5), torch.randn(1, 2, 1, 1)
    ready = prepare_weight(weight)
    weight.mul_(2)
    with pytest.raises(ValueError, match="changed since it was prepared: call prepare_weight again"):
        linear_fp32x3(torch.randn(3, 5), ready)
    with pytest.raises(ValueError, match="changed since"):
        linear_group_norm_min_bias(torch.randn(3, 5), ready, None, 2, None, None, bias)


@pytest.mark.usefixtures("taken")
def test_a_layer_splits_again_when_its_weight_has_changed(splits: list[torch.Size]) -> None:
    layer, x = LinearFP32x3(5, 4), torch.randn(3, 5)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(2):
        layer(x)
    assert len(splits) == 1
    layer(x).sum().backward()
    optimizer.step()
    layer(x)
    layer(x)
    assert len(splits) == 2
    layer.load_state_dict(layer.state_dict())
    layer(x)
    assert len(splits) == 3
    layer.weight = nn.Parameter(torch.randn(4, 5))
    layer(x)
    assert len(splits) == 4
    assert copy.deepcopy(layer)(x).shape == (3, 4)
    assert len(splits) == 5


@pytest.mark.usefixtures("taken")
def test_a_split_weight_goes_when_the_weight_does(splits: list[torch.Size]) -> None:
    layer = LinearFP32x3(5, 4)
    before = len(prepared._SPLIT)
    layer(torch.randn(3, 5))
    assert len(prepared._SPLIT) == before + 1
    del layer
    gc.collect()
    assert len(prepared._SPLIT) == before


@pytest.mark.usefixtures("taken")
def test_no_split_weight_is_kept_where_changes_go_unseen(splits: list[torch.Size]) -> None:
    torch._dynamo.reset()
    layer, x = LinearFP32x3(5, 4), torch.randn(3, 5)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), F.linear(x, layer.weight, layer.bias))
    with torch.inference_mode():
        LinearFP32x3(5, 4)(x)
    LinearFP32x3(5, 4, precision="ieee")(x)
    assert splits == []


@pytest.mark.usefixtures("taken")
def test_the_layer_is_torchs() -> None:
    theirs = nn.Linear(5, 4)
    mine = LinearFP32x3.from_torch(theirs)
    assert mine.weight is theirs.weight
    assert list(mine.state_dict()) == list(theirs.state_dict())
    x = torch.randn(2, 3, 5)
    torch.testing.assert_close(mine(x), theirs(x))
    assert repr(mine).replace("LinearFP32x3", "Linear") == repr(theirs)
    assert repr(LinearFP32x3(5, 4, precision="ieee")).endswith("precision=ieee)")


def test_a_precision_that_is_none() -> None:
    x, weight = torch.randn(3, 5), torch.randn(4, 5)
    with pytest.raises(ValueError, match="precision='tf32': there are fp32x3, ieee"):
        linear_fp32x3(x, weight, precision="tf32")
    with pytest.raises(ValueError, match="there are fp32x3, ieee"):
        LinearFP32x3(5, 4, precision="tf32")


def test_another_bias_goes_to_torch() -> None:
    x, weight, bias = torch.randn(3, 5), torch.randn(4, 5), torch.randn(7)
    with pytest.warns(Fallback, match=r"the bias is not of the shape \(1, count, 1, 1\); torch computes"):
        found = linear_group_norm_min_bias(x, weight, None, 2, None, None, bias)
    wanted = F.group_norm(F.linear(x, weight), 2).min(1, keepdim=True).values + bias
    torch.testing.assert_close(found, wanted)


def test_wrong_arguments_are_torchs_to_refuse() -> None:
    x, weight, bias = torch.randn(3, 5), torch.randn(4, 5), torch.randn(1, 4, 1, 1)
    with pytest.raises(RuntimeError):
        linear_fp32x3(x, torch.randn(4, 6))
    with pytest.raises(RuntimeError):
        linear_group_norm_min_bias(x, weight, None, 3, None, None, bias)


@pytest.mark.usefixtures("taken")
def test_nothing_to_compute() -> None:
    assert linear_fp32x3(torch.randn(0, 5), torch.randn(4, 5)).shape == (0, 4)
    bias = torch.randn(4)
    torch.testing.assert_close(linear_fp32x3(torch.randn(2, 0), torch.randn(4, 0), bias), bias.expand(2, 4))


def test_the_file_for_one_architecture_holds_its_path() -> None:
    marks = dict.fromkeys(("cumsum", "logsumexp", "softmax"), "barrier.cluster")
    marks |= dict.fromkeys(("cross_entropy", "linear_cross_entropy", "masked_softmax"), "griddepcontrol")
    for name in sources.OWN_PATHS:
        portable, own = sources.candidate(name), sources.candidate(name, "90a")
        # Products of 16-bit numbers are sm_80's at least; of sm_90 nothing is in any portable file.
        assert name == "matmul_half" or "asm" not in portable
        assert "wgmma" not in portable
        assert "cp.async.bulk" not in portable
        assert marks.get(name, "cp.async.bulk") in own
        assert "this_cluster" not in portable
        assert 'extra_cuda_cflags=["-O3", "-gencode=arch=compute_90a,code=sm_90a"]' in own
        assert sources.candidate(name, "80") == portable
    assert sources.candidate("gelu", "90a") == sources.candidate("gelu")


@pytest.mark.parametrize(("depth", "taken"), [(64, False), (128, True), (256, False)])
def test_a_small_depth_is_matmuls_where_that_is_faster(
    depth: int, taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a depth of 256 on the kernel has its own product."""
    x, weight = torch.empty(4, 256, depth, device="meta"), torch.empty(8192, depth, device="meta")
    monkeypatch.setattr(matmul, "has_tensor_cores", lambda device: True)
    assert product.is_matmuls(x, weight, None, "fp32x3") is taken
    assert not product.is_matmuls(x, weight, None, "ieee")


@pytest.mark.parametrize(("rows", "taken"), [(1, False), (16, True), (128, True), (1024, False)])
def test_few_rows_are_matmuls_where_they_read_a_weight_once(
    rows: int, taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A weight that was split beforehand stays with the kernel that takes it so."""
    x, weight = torch.empty(rows, 4096, device="meta"), torch.empty(4096, 4096, device="meta")
    monkeypatch.setattr(matmul, "has_tensor_cores", lambda device: True)
    assert product.is_matmuls(x, weight, None, "fp32x3") is taken
    assert not product.is_matmuls(x, weight, torch.empty(1), "fp32x3")
    assert not product.is_matmuls(x, torch.empty(4096, 4097, device="meta")[:, 1:], None, "fp32x3")


def test_what_is_matmuls_has_the_values_of_a_linear_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    def multiplied(a: torch.Tensor, b: torch.Tensor, added: matmul.Sum, precision: str) -> torch.Tensor:
        assert added.c is not None
        return a @ b + added.c

    monkeypatch.setattr(product, "is_matmuls", lambda x, weight, packed, precision: True)
    monkeypatch.setattr(matmul, "multiplied", multiplied)
    x, weight, bias = torch.randn(3, 5, 40), torch.randn(7, 40), torch.randn(7)
    y = product.multiplied(x, weight, bias, None, "fp32x3")
    torch.testing.assert_close(y, torch.nn.functional.linear(x, weight, bias))
