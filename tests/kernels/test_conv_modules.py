"""The modules of convolutions compute what torch's compute, with torch's parameters."""

from typing import Any

import pytest
import torch
from torch import nn

from agent import kernels

pytestmark = pytest.mark.usefixtures("taken")
LAYERS: list[tuple[str, tuple[int, ...], dict[str, Any]]] = [
    ("Conv1d", (2, 4, 9), {"kernel_size": 3, "stride": 2, "padding": 1}),
    ("Conv2d", (2, 4, 6, 7), {"kernel_size": (3, 5), "padding": "same", "groups": 2}),
    ("Conv2d", (2, 4, 6, 7), {"kernel_size": 3, "padding": "valid", "bias": False}),
    ("Conv2d", (2, 4, 6, 7), {"kernel_size": 3, "padding": 2, "padding_mode": "circular"}),
    ("Conv2d", (4, 6, 7), {"kernel_size": 3}),
    ("Conv3d", (1, 4, 4, 5, 6), {"kernel_size": 3, "dilation": 1}),
    ("ConvTranspose1d", (2, 4, 9), {"kernel_size": 3, "stride": 2}),
    ("ConvTranspose2d", (2, 4, 6, 7), {"kernel_size": 3, "stride": 2, "output_padding": 1, "groups": 2}),
    ("ConvTranspose1d", (4, 9), {"kernel_size": 3, "stride": 2}),
    ("ConvTranspose3d", (1, 4, 3, 4, 5), {"kernel_size": 2, "padding": 1}),
]


@pytest.mark.parametrize(("kind", "shape", "options"), LAYERS, ids=str)
def test_a_module_computes_what_torchs_does(
    kind: str, shape: tuple[int, ...], options: dict[str, Any]
) -> None:
    theirs: nn.Module = getattr(nn, kind)(4, 6, **options)
    ours = getattr(kernels, f"{kind}FP32x3")
    x = torch.randn(shape)
    shared, fresh = ours.from_torch(theirs), ours(4, 6, **options)
    fresh.load_state_dict(theirs.state_dict())
    assert shared.weight is theirs.weight
    torch.testing.assert_close(shared(x), theirs(x))
    torch.testing.assert_close(fresh(x), theirs(x))
    assert isinstance(fresh, type(theirs))


def test_a_transposed_one_of_a_size_that_is_asked_for() -> None:
    theirs = nn.ConvTranspose2d(4, 6, 3, stride=3)
    x = torch.randn(1, 4, 5, 5)
    ours = kernels.ConvTranspose2dFP32x3.from_torch(theirs)
    assert ours(x, (16, 17)).shape == (1, 6, 16, 17)
    torch.testing.assert_close(ours(x, (16, 17)), theirs(x, [16, 17]))


def test_the_kernels_function_is_what_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    from agent.kernels.conv_fp32x3 import module

    monkeypatch.setattr(module, "conv_fp32x3", lambda *arguments: "ours")
    monkeypatch.setattr(module, "conv_transpose_fp32x3", lambda *arguments: "ours, transposed")
    x: Any = torch.randn(1, 4, 5, 5)
    answers = [kernels.Conv2dFP32x3(4, 6, 3)(x), kernels.ConvTranspose2dFP32x3(4, 6, 3)(x)]
    assert answers == ["ours", "ours, transposed"]
