"""Norms of rows that the blocks of a cluster have in shared memory together, by way of PTX."""

from functools import cache

import numpy as np
import pytest
from device_library import Array
from kernels.device.plain_library import exact, normed
from ptx_library import NVCC, PtxDevice, from_cuda

from agent.kernels import sources

pytestmark = pytest.mark.skipif(NVCC is None, reason="no nvcc: PTX cannot be made from CUDA here")

KERNELS = """
#include "csrc/norm_clustered.cuh"
namespace kernelwright {
#define NORM(kCentred, kSum, T, V) \\
    template __global__ void norm_clustered<kCentred, kSum, T, V>( \\
        const Pack<T, V>*, const Pack<T, V>*, Parameter, Parameter, Pack<T, V>*, Pack<T, V>*, float*, \\
        float*, int, int, float, float);
NORM(true, false, float, 4)
NORM(false, true, float, 4)
NORM(true, true, __half, 8)
NORM(false, false, __half, 8)
}
"""
ROWS, BLOCKS, THREADS = 3, 8, 256


@cache
def _device() -> PtxDevice:
    source = PtxDevice.scratch("norms_in_clusters.cu", KERNELS)
    return PtxDevice(source, from_cuda(source, [sources.ROOT], "sm_90a"), checked=True)


def _placed(values: Array, dtype: str) -> Array:
    device = _device()
    room = device.empty(values.size, dtype)
    room[...] = values.astype(dtype).reshape(-1)
    return room.reshape(values.shape)


@pytest.mark.parametrize("wide", [False, True], ids=["", "parameters in float32"])
@pytest.mark.parametrize(
    ("centred", "summed", "dtype"),
    [(True, False, "float32"), (False, True, "float32"), (True, True, "float16"), (False, False, "float16")],
)
@pytest.mark.parametrize("packs", [1, 300, 2_049, 9_001])
def test_forward(packs: int, centred: bool, summed: bool, dtype: str, wide: bool) -> None:
    device, random = _device(), np.random.default_rng(0)
    vector = 4 if dtype == "float32" else 8
    length = packs * vector
    x, residual = (_placed(random.standard_normal((ROWS, length)) + 1, dtype) for _ in range(2))
    of_parameters = "float32" if wide else dtype
    weight, bias = (_placed(random.standard_normal(length), of_parameters) for _ in range(2))
    y, added = (_placed(np.full((ROWS, length), np.nan), dtype) for _ in range(2))
    mean, rstd = (_placed(np.full(ROWS, np.nan), "float32") for _ in range(2))
    part = -(-packs // BLOCKS)

    def parameter(values: Array) -> bytes:
        return np.array([device.address(values), wide]).tobytes()

    device.reset()
    device.cluster = (BLOCKS, 1, 1)
    device.launch_with(
        f"norm_clusteredILb{centred:d}ELb{summed:d}E{'f' if dtype == 'float32' else '6__half'}",
        ((ROWS * BLOCKS, 1, 1), (THREADS, 1, 1), part * 16 * (2 if summed else 1)),
        x, residual, parameter(weight), parameter(bias), y, added, mean, rstd,
        np.int32(packs), np.int32(part), np.float32(1 / length), np.float32(1e-5),
    )  # fmt: skip
    assert device.findings() == []
    if summed:
        np.testing.assert_array_equal(added, (x.astype("float32") + residual.astype("float32")).astype(dtype))
    source = exact(added if summed else x)
    wanted = normed(source, exact(weight), exact(bias), centred).detach().numpy()
    tolerance = 3e-6 if dtype == "float32" else 2e-3
    np.testing.assert_allclose(y, wanted, atol=tolerance * np.abs(wanted).max(), rtol=tolerance)
    if centred:
        np.testing.assert_allclose(mean, source.mean(1).detach().numpy(), rtol=1e-5)
