"""What torch.compile makes of the operators: layouts without copies, and what is left to the compiler."""

from pathlib import Path
from typing import Any

import pytest
import torch
from kernels.test_small import OnGPU
from torch import nn

from agent.kernels import routing
from agent.kernels.group_norm.module import GroupNorm

FORWARD = torch.ops.kernelwright.group_norm_forward
BACKWARD = torch.ops.kernelwright.group_norm_backward


@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
@pytest.mark.usefixtures("taken")
def test_group_norm_has_the_layout_of_the_convolutions_around_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Which Inductor keeps channels-last though the input is not; a copy would make them contiguous."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(4, 8, 3), GroupNorm(2, 8, act="silu"), nn.Conv2d(8, 8, 3))
    x = torch.randn(2, 4, 9, 8)
    wanted = _step(model, x)
    with torch._inductor.config.patch(force_layout_optimization=True):
        compiled = torch.compile(model, fullgraph=True, dynamic=False)
        torch.testing.assert_close(_step(compiled, x), wanted, rtol=1e-4, atol=1e-5)
    seen: list[torch.Tensor] = []
    for packet, tensors in ((FORWARD, 1), (BACKWARD, 2)):
        monkeypatch.setattr(packet, "default", _noting(packet.default, tensors, seen))
    _step(compiled, x)
    assert len(seen) == 3
    assert all(one.is_contiguous(memory_format=torch.channels_last) for one in seen)
    assert not any(one.is_contiguous() for one in seen)


@pytest.mark.parametrize("kernel", routing.POINTWISE)
def test_what_has_no_sums_is_the_compilers(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x: Any = OnGPU(2, 8)
    monkeypatch.setattr(routing, "obstacle", lambda *_: None)
    assert routing.takes(kernel, x)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert not routing.takes(kernel, x)
    assert routing.takes("layer_norm", x)
    assert not routing.fallbacks(kernel)
    monkeypatch.setenv("AGENT_KERNELS_ALWAYS", "1")
    routing.reset()
    assert routing.takes(kernel, x)


def _step(model: Any, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    value = model(x)
    return (value, *torch.autograd.grad(value.square().mean(), list(model.parameters())))


def _noting(operator: Any, tensors: int, seen: list[torch.Tensor]) -> Any:
    """The operator, whose first arguments are noted."""

    def noted(*arguments: Any) -> Any:
        seen.extend(arguments[:tensors])
        return operator(*arguments)

    return noted
