"""RMSNorm that a model writes out in a module of its own, alone and after a sum in another module."""

import copy
from typing import Any

import pytest
import torch
from kernels.fused_models import Q, alike, counted_calls
from torch import nn

from agent.kernels import add_rms_norm, replace_modules, rms_norm
from agent.kernels.fusing import written

pytestmark = pytest.mark.usefixtures("taken")


class There(nn.Module):
    """To float32 and back, the weight last: as most decoders of today have it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.linspace(0.5, 2, 8)), 1e-5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        dtype = x.dtype
        x = x.to(torch.float32)
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * x.to(dtype)


class AsType(There):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        normed = wide * (wide * wide).mean(dim=-1, keepdim=True).add(self.eps).rsqrt()
        return normed.type_as(x) * self.weight


class Plain(There):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.rsqrt(torch.mean(torch.square(x), (-1,), keepdim=True) + self.eps) * x * self.weight


class Layer(nn.Module):
    def __init__(self, norm: Any) -> None:
        super().__init__()
        self.norm, self.linear, self.last = norm(), nn.Linear(8, 8), norm()

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = x + self.linear(self.norm(x))
        return h, self.last(h)


@pytest.mark.parametrize("norm", [There, AsType, Plain])
def test_a_norm_that_is_written_out(norm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = Layer(norm)
    native = copy.deepcopy(model)
    done = replace_modules(model, Q)
    assert [(name.partition(":")[0], one.pattern) for name, one in done.fused.items()] == [
        ("the model itself", "sum + RMSNorm written out"),
        ("norm", "RMSNorm written out"),
        ("last", "RMSNorm written out"),
    ]
    alone = counted_calls(monkeypatch, written, "rms_norm", rms_norm)
    summed = counted_calls(monkeypatch, written, "add_rms_norm", add_rms_norm)
    # There in float32, whatever the input is: the forward of the others is compared in float64.
    if norm is Plain:
        alike(model, native, Q)
    else:
        for mine, theirs in zip(model(Q), native(Q), strict=True):
            torch.testing.assert_close(mine, theirs)
    assert (len(alone), len(summed)) == (1, 1)
    grads = [torch.autograd.grad(one(Q.float())[1].pow(3).sum(), list(one.parameters())) for one in
             (model.float(), native.float())]  # fmt: skip
    torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-4)
    done.restore()
    alone.clear()
    model(Q)
    assert alone == []


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_in_half_precision(dtype: torch.dtype) -> None:
    model = Layer(There).to(dtype)
    wanted = model(Q.to(dtype))
    assert len(replace_modules(model, Q.to(dtype)).fused) == 3
    torch.testing.assert_close(model(Q.to(dtype)), wanted, rtol=2e-2, atol=2e-2)


def test_a_weight_that_widens_the_result_stays() -> None:
    done = replace_modules(There(), Q.half())
    assert done.fused == {}
    assert "its weight is of a wider type than its input" in str(done)


def test_other_formulas_stay() -> None:
    class Centred(There):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.weight * ((x - 1) * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))

    class Cubed(There):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.weight * (x * torch.rsqrt(x.pow(3).abs().mean(-1, keepdim=True) + self.eps))

    class OfColumns(There):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.weight * (x * torch.rsqrt(x.pow(2).mean(-2, keepdim=True) + self.eps))

    for kind in (Centred, Cubed, OfColumns):
        assert replace_modules(kind(), Q).fused == {}
