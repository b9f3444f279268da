"""Which calls a kernel leaves to torch."""

from typing import Any

import pytest
import torch

from agent.kernels import routing, small
from agent.kernels.replaying import replayed


class OnGPU:
    """What is asked of a tensor."""

    is_cuda = True

    def __init__(self, *shape: int, requires_grad: bool = False) -> None:
        self.shape, self.requires_grad = shape, requires_grad

    def numel(self) -> int:
        return torch.Size(self.shape).numel()

    def element_size(self) -> int:
        return 4


@pytest.fixture(autouse=True)
def _nothing_is_captured_or_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setenv("AGENT_KERNELS_REPLAY", "0")


def is_torchs(kernel: str, *tensors: Any) -> bool:
    return small.is_torchs(kernel, *tensors)


def test_small_calls_are_torchs_and_large_ones_are_not() -> None:
    assert is_torchs("layer_norm", OnGPU(10, 1000), None)
    assert not is_torchs("layer_norm", OnGPU(100_000, 1000), None)
    assert not is_torchs("layer_norm", torch.ones(2, 8))


def test_a_gradient_costs_the_host_more() -> None:
    size = (10_000, 1000)  # 40 MB
    assert not is_torchs("layer_norm", OnGPU(*size), OnGPU(1000))
    assert is_torchs("layer_norm", OnGPU(*size), OnGPU(1000, requires_grad=True))
    with torch.no_grad():
        assert not is_torchs("layer_norm", OnGPU(*size), OnGPU(1000, requires_grad=True))


def test_short_rows_have_limits_of_their_own() -> None:
    assert is_torchs("rms_norm", OnGPU(10_000, 512, requires_grad=True))
    assert not is_torchs("rms_norm", OnGPU(40_000, 128, requires_grad=True))


def test_a_setting_gives_every_call_to_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_KERNELS_ALWAYS", "1")
    routing.reset()
    assert not is_torchs("layer_norm", OnGPU(10, 1000), None)


def test_no_call_is_left_where_a_graph_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    assert not is_torchs("layer_norm", OnGPU(10, 1000), None)


def test_where_calls_are_replayed_none_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replayed, "is_there", lambda: True)
    for kernel in small.BY_PYTHON:
        assert not is_torchs(kernel, OnGPU(10, 1000, requires_grad=True))


def test_nothing_is_built_where_kernels_are_disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replayed, "is_there", None)
    monkeypatch.setenv("AGENT_KERNELS_DISABLE", "1")
    routing.reset()
    assert not is_torchs("layer_norm", OnGPU(10, 1000), None)  # `takes` says no


@pytest.mark.parametrize("kernel", routing.POINTWISE)
def test_what_has_no_sums_is_the_compilers(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x: Any = OnGPU(2, 8)
    monkeypatch.setattr(routing, "obstacle", lambda *_: None)
    assert routing.takes(kernel, x)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert not routing.takes(kernel, x)
    assert not routing.fallbacks(kernel)
    assert routing.takes("layer_norm", x)
    monkeypatch.setenv("AGENT_KERNELS_ALWAYS", "1")
    routing.reset()
    assert routing.takes(kernel, x)
