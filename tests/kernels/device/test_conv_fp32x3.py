"""conv_fp32x3 on the emulator: both paths, that of the tensor cores with its instructions replaced."""

import ctypes
import struct
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from device_library import Device, build_runtime
from kernels.device.group_norm_library import one_text

from agent.kernels import routing
from agent.kernels.conv_fp32x3 import product
from agent.kernels.conv_fp32x3.window import Window
from agent.kernels.linear_fp32x3.product import PRECISIONS

HERE = Path(__file__).parent
SOURCE = HERE.parents[2] / "agent" / "kernels" / "conv_fp32x3" / "csrc" / "launch.cuh"
STAND_IN = {
    "bulk_sm90.cuh": HERE / "bulk_stand_in.cuh",
    "matrix_sm90.cuh": HERE / "matrix_stand_in.cuh",
    "warpgroups_sm90.cuh": HERE / "warpgroups_stand_in.cuh",
}
FACE = """
using namespace kernelwright;
extern "C" int run_conv(const void* p) { return conv::forward(*static_cast<const conv::Forward*>(p)); }
extern "C" int conv_bytes(const void* p) {
    return static_cast<int>(conv::forward_workspace(*static_cast<const conv::Forward*>(p)));
}
"""
SMS = "plan.sms = linear::attribute(cudaDevAttrMultiProcessorCount, args.device);"
EDITED = {
    "streamed": {SMS: "plan.sms = 7;"},
    "never twice": {
        "if (atomicOr(p.losses + number, losses) == 0) p.list": "p.y[0] = NAN; if (false) p.list"
    },
    "never anew": {"compute_tile(p, tile, slices);": "p.y[0] = NAN;"},
}
"""`streamed`: on so few SMs that stages of tiles are shared out. `never twice` and `never anew`: the first
sum is NaN where a tile is listed, and where it would be computed anew."""
EXACT = 2.0**-20
"""hi * hi alone is 2^-12 off, without one of the cross terms 2^-13."""
EVERY = pytest.mark.parametrize("precision", [*PRECISIONS, "streamed"])
BOTH = pytest.mark.parametrize("precision", list(PRECISIONS))
CASES = {
    "3x3": ((2, 5, 9, 11), (7, 5, 3, 3), Window((1, 1), (0, 0), (1, 1))),
    "1x1": ((1, 40, 5, 6), (70, 40, 1, 1), Window((1, 1), (0, 0), (1, 1))),
    "strided, padded, dilated": ((2, 4, 13, 12), (6, 4, 3, 5), Window((2, 3), (2, 1), (1, 2))),
    "in groups": ((1, 8, 9, 9), (12, 4, 3, 3), Window((1, 1), (1, 1), (1, 1), groups=2)),
    "more features than a tile": ((1, 3, 6, 6), (140, 3, 3, 3), Window((1, 1), (1, 1), (1, 1))),
    "1 dimension": ((2, 16, 70), (33, 16, 3), Window((3,), (2,), (4,))),
    "3 dimensions": ((1, 3, 6, 7, 8), (5, 3, 2, 3, 3), Window((1, 2, 1), (1, 0, 2), (1, 1, 1))),
    "padding that reaches past the input": ((1, 30, 2, 2), (4, 30, 1, 1), Window((1, 1), (3, 3), (1, 1))),
    "transposed": ((2, 5, 6, 7), (5, 4, 3, 3), Window((1, 1), (0, 1), (1, 2), True, (0, 1))),
    "transposed, cut off": ((1, 30, 6, 7), (30, 4, 1, 2), Window((1, 1), (2, 1), (1, 1), True, (0, 0))),
    "transposed, strided": ((2, 6, 5, 4), (6, 4, 4, 5), Window((2, 3), (1, 2), (1, 1), True, (1, 2))),
    "transposed, strided, dilated": (
        (1, 14, 5, 4), (14, 4, 3, 3), Window((2, 4), (1, 0), (2, 2), True, (1, 0))
    ),
    "transposed, more stride than taps": ((1, 30, 5), (30, 3, 3), Window((5,), (1,), (2,), True, (0,))),
    "transposed in groups": ((1, 8, 5, 6), (8, 6, 3, 3), Window((2, 1), (1, 0), (1, 1), True, (1, 0), 2)),
    "transposed, 3 dimensions": (
        (1, 4, 3, 4, 5), (4, 5, 3, 3, 2), Window((2, 1, 2), (1, 0, 1), (1, 2, 1), True, (0, 1, 1))
    ),
}  # fmt: skip


@cache
def built(precision: str = "fp32x3") -> Device:
    """With both paths; for ieee the portable one alone, whose accesses are checked; others as EDITED."""
    portable = precision == "ieee"
    text = one_text([str(SOURCE)], STAND_IN)
    for was, becomes in EDITED.get(precision, {}).items():
        assert was in text
        text = text.replace(was, becomes)
    source = build_runtime().parent / f"conv_{precision.replace(' ', '_')}.cu"
    selected = "#define KW_PORTABLE_ONLY\n" if portable else "#define __CUDA_ARCH_FEAT_SM90_ALL 1\n"
    source.write_text(selected + text + FACE)
    return Device(source, checked=portable)


class Emulated:
    """The library on the emulator, in the place of the one on a GPU."""

    def __init__(self, precision: str) -> None:
        self.device = built(precision)

    def ask(self, function: str, fields: str, *values: int) -> int:
        return self.device.call("conv_bytes", ctypes.create_string_buffer(struct.pack(f"@{fields}", *values)))

    def launch(self, function: str, fields: str, *values: int) -> None:
        packed = ctypes.create_string_buffer(struct.pack(f"@{fields}", *values))
        assert self.device.call("run_conv", packed) == 0
        assert self.device.findings() == []


@pytest.fixture(autouse=True)
def emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors are in memory of the emulated device wherever the calls look for them."""

    def empty(
        shape: int | tuple[int, ...], dtype: torch.dtype = torch.float32, **options: object
    ) -> torch.Tensor:
        return torch.from_numpy(built().empty(shape, str(dtype).removeprefix("torch."))).fill_(255)

    monkeypatch.setattr(product, "stream", lambda x: 0)
    monkeypatch.setattr(torch.Tensor, "get_device", lambda self: 0)
    monkeypatch.setattr(torch.Tensor, "new_empty", lambda self, shape: empty(shape))
    monkeypatch.setattr(torch, "empty", empty)


def draw(seed: int, *shape: int) -> torch.Tensor:
    return placed(torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype("float32")))


def placed(values: torch.Tensor) -> torch.Tensor:
    """In memory of the emulated device."""
    return values.new_empty(tuple(values.shape)).copy_(values)


def convolved(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    window: Window,
    precision: str = "fp32x3",
) -> torch.Tensor:
    """By the portable path alone where that is asked for."""
    placing = torch.Tensor.contiguous
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(routing, "library", lambda kernel, device: Emulated(precision))
        patch.setattr(torch.Tensor, "contiguous", lambda self: placed(placing(self)))
        asked = precision if precision in PRECISIONS else "fp32x3"
        return product.convolved(x, weight, bias, window, asked).double()


@EVERY
@pytest.mark.parametrize("name", CASES)
def test_any_window(name: str, precision: str) -> None:
    x_shape, weight_shape, window = CASES[name]
    features = weight_shape[1] * window.groups if window.transposed else weight_shape[0]
    x, weight, bias = draw(1, *x_shape), draw(2, *weight_shape), draw(3, features)
    window = window if window.transposed else window._replace(output_padding=(0,) * len(window.stride))
    terms = torch.convolution(x.double().abs(), weight.double().abs(), None, *window)
    for shift in (bias, None):
        y = convolved(x, weight, shift, window, precision)
        wanted = torch.convolution(
            x.double(), weight.double(), None if shift is None else shift.double(), *window
        )
        assert float(((y - wanted).abs() / terms.clamp_min(1e-3)).max()) < EXACT


def test_pixels_of_any_scale() -> None:
    x, weight = draw(1, 1, 8, 6, 40), draw(2, 6, 8, 1, 5)
    x *= torch.logspace(-30, 20, 40)
    window = Window((1, 1), (0, 0), (1, 1))
    y, wanted = convolved(x, weight, None, window), torch.conv2d(x.double(), weight.double())
    assert float(((y - wanted).abs() / torch.conv2d(x.double().abs(), weight.double().abs())).max()) < EXACT


@BOTH
def test_infinities_and_nan_stand_where_floats_are(precision: str) -> None:
    x, weight, inf = draw(7, 2, 8, 7, 9), draw(8, 5, 8, 3, 3), float("inf")
    x[0, 1, 2, 3], x[0, 3, 5, 6], x[1, 0, 0, 0], weight[2, 3, 1, 1] = inf, -inf, float("nan"), inf
    y = convolved(x, weight, None, Window((1, 1), (0, 0), (1, 1)), precision)
    wanted = torch.conv2d(x, weight)
    assert torch.equal(y.isnan(), wanted.isnan())
    assert torch.equal(y[wanted.isinf()], wanted[wanted.isinf()].double())
