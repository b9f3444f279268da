"""The convolution with all that follows it, on the emulator, against float64.

The portable path as it is, that of sm_90a with its instructions replaced.
"""

import struct
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from device_library import Array, Device, build_runtime
from kernels.device.group_norm_library import one_text

from agent.kernels import sources

HERE = Path(__file__).parent
NAME = "conv_group_norm_tanh_hardswish_residual_logsumexp"
CSRC = sources.ROOT / NAME / "csrc"
STAND_IN = {
    "bulk_sm90.cuh": HERE / "bulk_stand_in.cuh",
    "matrix_sm90.cuh": HERE / "matrix_stand_in.cuh",
    "sm90_instructions.cuh": HERE / "conv_stand_in.cuh",
}
FACE = """
using namespace kernelwright::conv_logsumexp;
extern "C" int run(const Forward* f) { return forward(*f); }
extern "C" int bytes(const Forward* f) { return static_cast<int>(forward_workspace(*f)); }
extern "C" int run_back(const Backward* b) { return backward(*b); }
extern "C" int bytes_back(const Backward* b) { return static_cast<int>(backward_workspace(*b)); }
"""
AUTO, PORTABLE, RECOMPUTED = 0, 1, 2


class Sizes(NamedTuple):
    """Of the call; groups divide the channels."""

    n: int
    in_channels: int
    channels: int
    height: int
    width: int
    groups: int


@cache
def library(is_portable: bool) -> Device:
    """The portable path is checked for races and bounds; the stand-ins order memory in ways of their own."""
    path = build_runtime().parent / f"conv_logsumexp_{int(is_portable)}.cu"
    only = "#define KW_PORTABLE_ONLY\n" if is_portable else ""
    path.write_text(only + one_text([str(CSRC / "launch.cuh")], STAND_IN) + FACE)
    return Device(path, checked=is_portable)


def draw(sizes: Sizes, seed: int = 0) -> list[Array]:
    """x, weight, bias, gamma, beta."""
    random = np.random.default_rng(seed)
    n, inputs, channels, height, width, _ = sizes
    shapes = [(n, inputs, height, width), (channels, inputs, 3, 3), (channels,), (channels,), (channels,)]
    x, weight, *rest = (random.standard_normal(shape).astype("float32") for shape in shapes)
    return [x, (weight / np.sqrt(9 * inputs)).astype("float32"), *rest]


def truth(tensors: list[Array | None], groups: int, dtype: torch.dtype = torch.float64) -> Array:
    x, weight, bias, gamma, beta = (None if t is None else torch.tensor(t).to(dtype) for t in tensors)
    assert x is not None
    c = F.conv2d(x, weight, bias)  # type: ignore[arg-type]
    y = torch.logsumexp(c + F.hardswish(torch.tanh(F.group_norm(c, groups, gamma, beta))), 1)
    return y.double().numpy()


def run(sizes: Sizes, tensors: list[Array | None], path: int) -> Array:
    device = library(path == PORTABLE)
    device.runtime.kw_clear_findings()
    placed = [None if values is None else device.array(values) for values in tensors]
    y = device.empty((sizes.n, sizes.height - 2, sizes.width - 2))
    pointers = [0 if values is None else values.ctypes.data for values in (*placed, y)]

    def packed(workspace: int) -> bytes:
        return struct.pack("<7Q7qd2q", *pointers, workspace, *sizes[:5], sizes.groups, path, 1e-5, 0, 0)

    workspace = device.empty(device.call("bytes", packed(0)), "uint8")
    assert device.call("run", packed(workspace.ctypes.data)) == 0
    assert device.findings() == []
    return y.astype("float64")


def check(sizes: Sizes, tensors: list[Array | None], path: int) -> None:
    """At least as near to float64 as a few of torch's own errors."""
    wanted, native = truth(tensors, sizes.groups), truth(tensors, sizes.groups, torch.float32)
    ours = run(sizes, tensors, path)
    allowed = 4 * np.abs(native - wanted).max() + 2e-7 * np.abs(wanted).max()
    assert np.abs(ours - wanted).max() <= allowed


def run_back(sizes: Sizes, tensors: list[Array | None], y: Array, dy: Array) -> tuple[Array, Array]:
    """dc, and the sums of dbeta and dgamma of each image."""
    device = library(is_portable=True)
    device.runtime.kw_clear_findings()
    placed = [None if values is None else device.array(values) for values in (dy, *tensors, y)]
    n, channels = sizes.n, sizes.channels
    dc = device.empty((n, channels, sizes.height - 2, sizes.width - 2))
    sums = device.empty((2, n, channels))
    pointers = [0 if values is None else values.ctypes.data for values in (*placed, dc, sums)]

    def packed(workspace: int) -> bytes:
        return struct.pack("<9Q7qd2q", *pointers, workspace, *sizes[:5], sizes.groups, 1e-5, 0, 0)

    workspace = device.empty(device.call("bytes_back", packed(0)), "uint8")
    assert device.call("run_back", packed(workspace.ctypes.data)) == 0
    assert device.findings() == []
    return dc.astype("float64"), sums.astype("float64")


def gradients(
    sizes: Sizes, tensors: list[Array | None], dy: Array, dtype: torch.dtype
) -> tuple[Array, Array, Array]:
    """y, dc and the sums, by autograd."""
    x, weight, bias, gamma, beta = (None if t is None else torch.tensor(t).to(dtype) for t in tensors)
    c = F.conv2d(x, weight, bias).requires_grad_()  # type: ignore[arg-type]
    z = F.group_norm(c, sizes.groups)
    of_each = (sizes.n, sizes.channels, 1, 1)
    scale = (torch.ones(of_each) if gamma is None else gamma.view(1, -1, 1, 1).expand(of_each)).to(dtype)
    shift = (torch.zeros(of_each) if beta is None else beta.view(1, -1, 1, 1).expand(of_each)).to(dtype)
    scale, shift = scale.clone().requires_grad_(), shift.clone().requires_grad_()
    y = torch.logsumexp(c + F.hardswish(torch.tanh(z * scale + shift)), 1)
    dc, dgamma, dbeta = torch.autograd.grad(y, (c, scale, shift), torch.tensor(dy).to(dtype))
    sums = torch.stack([dbeta, dgamma]).view(2, sizes.n, sizes.channels)
    return y.detach().double().numpy(), dc.double().numpy(), sums.double().numpy()


@pytest.mark.parametrize(
    "sizes",
    [
        Sizes(2, 8, 64, 12, 37, 16), Sizes(1, 3, 6, 5, 70, 3), Sizes(3, 11, 130, 3, 4, 13),
        Sizes(1, 2, 9, 40, 45, 1),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("is_bare", [False, True])
def test_gradient_of_the_convolutions_result(sizes: Sizes, is_bare: bool) -> None:
    """Within a few of torch's own errors; without bias, gamma and beta too."""
    tensors: list[Array | None] = list(draw(sizes))
    if is_bare:
        tensors[2:] = [None] * 3
    dy = np.random.default_rng(5).standard_normal((sizes.n, sizes.height - 2, sizes.width - 2))
    dy = dy.astype("float32")
    y, *wanted = gradients(sizes, tensors, dy, torch.float64)
    native = gradients(sizes, tensors, dy, torch.float32)[1:]
    for ours, exact, theirs in zip(
        run_back(sizes, tensors, y.astype("float32"), dy), wanted, native, strict=True
    ):
        allowed = 4 * np.abs(theirs - exact).max() + 2e-7 * np.abs(exact).max()
        assert np.abs(ours - exact).max() <= allowed


def test_gradient_where_tanh_is_at_its_ends() -> None:
    """Shifts so large that tanh is 1 or -1: what goes through the norm is 0, and nothing overflows."""
    sizes = Sizes(1, 2, 4, 6, 9, 2)
    tensors: list[Array | None] = list(draw(sizes))
    tensors[4] = np.array([300, -300, 20, -20], "float32")
    dy = np.ones((1, 4, 7), "float32")
    y, *wanted = gradients(sizes, tensors, dy, torch.float64)
    for ours, exact in zip(run_back(sizes, tensors, y.astype("float32"), dy), wanted, strict=True):
        np.testing.assert_allclose(ours, exact, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "sizes",
    [
        Sizes(2, 8, 64, 12, 37, 16), Sizes(1, 3, 6, 5, 70, 3), Sizes(3, 11, 130, 3, 4, 13),
        Sizes(2, 8, 16, 19, 3, 1),
    ],
    ids=str,
)  # fmt: skip
def test_portable(sizes: Sizes) -> None:
    check(sizes, list(draw(sizes)), PORTABLE)


@pytest.mark.parametrize(
    "sizes", [Sizes(2, 8, 64, 16, 128, 16), Sizes(1, 8, 64, 5, 300, 1), Sizes(3, 8, 64, 90, 17, 64)], ids=str
)
def test_tensor_cores(sizes: Sizes) -> None:
    check(sizes, list(draw(sizes)), RECOMPUTED)


def test_large_calls_take_the_tensor_cores_of_themselves() -> None:
    """From where the portable convolution has more blocks than two for each of the device's 132 SMs."""
    for n, path in ((264, PORTABLE), (265, RECOMPUTED)):
        sizes = Sizes(n, 8, 64, 3, 4, 8)
        tensors: list[Array | None] = list(draw(sizes))
        assert np.array_equal(run(sizes, tensors, AUTO), run(sizes, tensors, path))


@pytest.mark.parametrize("path", [PORTABLE, RECOMPUTED])
def test_without_parameters(path: int) -> None:
    sizes = Sizes(1, 8, 64, 6, 20, 8)
    check(sizes, [*draw(sizes)[:2], None, None, None], path)


@pytest.mark.parametrize("path", [PORTABLE, RECOMPUTED])
def test_scales_far_apart(path: int) -> None:
    """Channels and images of very different sizes, a mean far from zero, sums that no exp can hold."""
    sizes = Sizes(3, 8, 64, 14, 40, 16)
    x, weight, bias, gamma, beta = draw(sizes, 1)
    x *= np.array([1e-6, 1, 100], "float32")[:, None, None, None]
    x[1] += 30
    weight *= (10.0 ** np.linspace(-4, 1, 64)).astype("float32")[:, None, None, None]
    check(sizes, [x, weight, bias, gamma, beta], path)


def test_a_mean_far_from_zero_costs_no_accuracy() -> None:
    """What the tensor cores cut off of the sums goes one way, and a large mean would make it large."""
    sizes = Sizes(1, 8, 64, 12, 128, 16)
    x, *parameters = draw(sizes, 2)
    x += np.linspace(-60, 60, 8, dtype="float32")[:, None, None]
    tensors: list[Array | None] = [x, *parameters]
    wanted, native = truth(tensors, 16), truth(tensors, 16, torch.float32)
    ours = run(sizes, tensors, RECOMPUTED)
    assert np.square(ours - wanted).mean() <= 0.5 * np.square(native - wanted).mean()


@pytest.mark.parametrize("path", [PORTABLE, RECOMPUTED])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_takes_its_image(path: int, value: float) -> None:
    sizes = Sizes(2, 8, 64, 9, 20, 16)
    tensors = draw(sizes)
    tensors[0][1, 3, 4, 5] = value
    y = run(sizes, list(tensors), path)
    assert np.isnan(y[1]).all()
    np.testing.assert_allclose(y[0], truth(list(tensors), 16)[0], rtol=2e-6)
