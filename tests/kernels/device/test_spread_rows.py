"""Rows that the blocks of a cluster take together, by way of PTX: warps send each other what they have."""

from functools import cache

import numpy as np
import pytest
import torch
from device_library import Array
from kernels.device.plain_library import exact
from ptx_library import NVCC, PtxDevice, from_cuda

from agent.kernels import sources

pytestmark = pytest.mark.skipif(NVCC is None, reason="no nvcc: PTX cannot be made from CUDA here")

KERNELS = """
#define KW_DTYPES 0
#include "cross_entropy/csrc/launch.cuh"
#include "logsumexp/csrc/launch.cuh"
#include "softmax/csrc/launch.cuh"
using kernelwright::Team;
template __global__ void kernelwright::softmax::resident_rows<false, Team, 8, float, 4>(
    const float*, float*, int64_t, int64_t);
template __global__ void kernelwright::softmax::backward_rows<false, Team, false, 4, float, 4>(
    const float*, const float*, float*, int64_t, int64_t);
template __global__ void kernelwright::softmax::backward_rows<false, Team, true, 2, float, 4>(
    const float*, const float*, float*, int64_t, int64_t);
template __global__ void kernelwright::logsumexp::rows<false, Team, 8, float, 4>(
    const float*, float*, float*, int64_t, int64_t, bool);
template __global__ void kernelwright::cross_entropy::losses<false, Team, 4, float, 4>(
    kernelwright::cross_entropy::GivenForward);
"""
ROWS, LENGTH, WARP = 3, 4099, 32
SHAPES = pytest.mark.parametrize(("blocks", "warps"), [(2, 9), (16, 1), (16, 9)], ids=str)


@cache
def _device() -> PtxDevice:
    source = PtxDevice.scratch("spread_rows.cu", KERNELS)
    return PtxDevice(source, from_cuda(source, [sources.ROOT], "sm_90a"), checked=True)


def _launch(name: str, blocks: int, warps: int, *arguments: object) -> None:
    device = _device()
    device.reset()
    device.cluster = (blocks, 1, 1)
    device.launch(name, ROWS * blocks, warps * WARP, *arguments)
    assert device.findings() == []


def _drawn() -> Array:
    device = _device()
    return device.array((np.random.default_rng(0).standard_normal((ROWS, LENGTH)) * 4).astype("float32"))


def _room(*shape: int) -> Array:
    room = _device().empty(int(np.prod(shape))).reshape(shape)
    room[...] = np.nan
    return room


@SHAPES
@pytest.mark.parametrize("special", [None, -np.inf, np.inf, np.nan], ids=str)
def test_softmax_and_logsumexp(special: float | None, blocks: int, warps: int) -> None:
    """A special value stands once in the second row, and fills the third."""
    x, y, result, unrounded = _drawn(), _room(ROWS, LENGTH), _room(ROWS), _room(ROWS)
    if special is not None:
        x[1, LENGTH // 2], x[2] = special, special
    sizes = np.int64(ROWS), np.int64(LENGTH)
    _launch("softmax13resident_rows", blocks, warps, x, y, *sizes)
    _launch("logsumexp4rows", blocks, warps, x, result, unrounded, *sizes, np.bool_(True))
    truth = exact(x)
    np.testing.assert_allclose(y, truth.softmax(1).detach().numpy(), atol=1e-7, rtol=3e-6)
    for ours in (result, unrounded):
        np.testing.assert_allclose(ours, truth.logsumexp(1).detach().numpy(), rtol=3e-6)


@SHAPES
@pytest.mark.parametrize("kernel", ["backward_rowsILb0ENS_4TeamELb0E", "backward_rowsILb0ENS_4TeamELb1E"])
def test_gradient_of_softmax(kernel: str, blocks: int, warps: int) -> None:
    """Of rows that registers hold, and of those whose rest is read again."""
    grad, y, dx = _drawn(), _drawn(), _room(ROWS, LENGTH)
    _launch(kernel, blocks, warps, grad, y, dx, np.int64(ROWS), np.int64(LENGTH))
    of_grad, of_y = exact(grad).detach(), exact(y).detach()
    wanted = (of_grad - (of_grad * of_y).sum(1, keepdim=True)) * of_y
    np.testing.assert_allclose(dx, wanted.numpy(), atol=1e-5 * float(wanted.abs().max()))


@SHAPES
def test_losses(blocks: int, warps: int) -> None:
    """Of three rows, one of them ignored, with label smoothing."""
    device, x, loss, lse = _device(), _drawn(), _room(ROWS), _room(ROWS)
    target = device.empty(ROWS, "int64")
    target[...] = [5, -100, LENGTH - 1]
    addresses = [device.address(array) for array in (x, target, loss, lse)]
    numbers = [ROWS, LENGTH, -100]
    settings, floats = np.array([0.1, 0.0]), np.array([0.9, 0.1, 1 / LENGTH, 0.0], "float32")
    given = np.array([*addresses, *numbers]).tobytes() + settings.tobytes() + np.array([0, 0, 0, 0]).tobytes()
    streams = np.array([1]).tobytes()
    _launch("losses", blocks, warps, given + floats.tobytes() + streams)
    truth = torch.nn.functional.cross_entropy(
        exact(x), torch.tensor(target), reduction="none", label_smoothing=0.1
    )
    np.testing.assert_allclose(loss, truth.detach().numpy(), rtol=3e-6, atol=1e-6)
    np.testing.assert_allclose(lse, exact(x).logsumexp(1).detach().numpy(), rtol=3e-6)
