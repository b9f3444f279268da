"""A whole decoder whose fused calls are the kernels' device code on the emulator, in value and gradient."""

import copy
import struct
from collections import Counter
from math import prod
from typing import Any

import pytest
import torch
from device_library import Device
from kernels.device.plain_library import library
from torch import nn

from agent.kernels import operators, replace_modules, routing
from benchmarks.kernels.architectures import Decoder

KERNELS = ("add_rms_norm", "embedding_norm", "gate_product", "masked_softmax", "rms_norm", "rotary")


class Emulated:
    """A kernel's library in the place of the one for a GPU: addresses are those of CPU tensors."""

    def __init__(self, kernel: str, device: Device, calls: Counter[str]) -> None:
        self._kernel, self._device, self._calls = kernel, device, calls

    def launch(self, function: str, fields: str, *values: Any) -> None:
        # The last number is that of the GPU, which a CPU tensor has none of.
        packed = struct.pack(f"@{fields}", *values[:-1], 0)
        assert self._device.call(f"{self._kernel}_{function}", packed) == 0
        self._calls[f"{self._kernel}_{function}"] += 1

    def remembered(self, sizes: tuple[int, ...], function: str, fields: str, *values: Any) -> int:
        """Bytes of a workspace that is large enough, for this library does not export the question."""
        return 2 * 4 * prod(sizes)


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch, taken: None) -> Counter[str]:
    """How often each function was launched on the emulator."""
    calls: Counter[str] = Counter()
    monkeypatch.setattr(operators, "on_device", lambda _: True)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda _: 0, raising=False)
    monkeypatch.setattr(
        routing, "library", lambda kernel, _: Emulated(kernel, library("float32", KERNELS), calls)
    )
    return calls


class Attending(nn.Module):
    """Attention as it was written before there was one call for it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("ahead", torch.ones(9, 9, dtype=torch.bool).triu(1))
        self.inner = nn.Linear(32, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k = self.inner(x).chunk(2, -1)
        found = (q @ k.transpose(-2, -1) * 0.25).masked_fill(self.ahead, float("-inf"))
        return torch.softmax(found, -1) @ x


def _step(model: nn.Module, tokens: torch.Tensor) -> list[torch.Tensor]:
    value = model(tokens)
    grads = torch.autograd.grad(value.square().mean(), list(model.parameters()))
    return [value.detach(), *grads]


def test_a_decoder(launched: Counter[str]) -> None:
    torch.manual_seed(0)
    decoder = Decoder(50, 32, 2, 4)
    decoder.layers.append(Attending())
    tokens = torch.randint(50, (2, 9))
    native = copy.deepcopy(decoder)
    done = replace_modules(decoder, tokens)
    found = Counter(fusion.kernel for fusion in done.fused.values())
    # The third layer's result is a product: the last norm has no sum before it.
    assert found == {
        "add_rms_norm": 3, "embedding_norm": 1, "gate_product": 2, "masked_softmax": 1, "rotary": 4
    }  # fmt: skip
    launched.clear()
    ours, truth = _step(decoder, tokens), _step(native.double(), tokens)
    for mine, exact in zip(ours, truth, strict=True):
        torch.testing.assert_close(mine.double(), exact, rtol=2e-5, atol=2e-5 * float(exact.abs().max()))
    assert launched == {
        # The embedding's norm has the backward of a sum's; rotary's is its forward, the other way round.
        "add_rms_norm_forward": 3, "add_rms_norm_backward": 4, "embedding_norm_forward": 1,
        "embedding_norm_table_backward": 1, "gate_product_forward": 2, "gate_product_backward": 2,
        "masked_softmax_forward": 1, "masked_softmax_backward": 1, "rms_norm_forward": 1,
        "rms_norm_backward": 1, "rotary_forward": 8,
    }  # fmt: skip
