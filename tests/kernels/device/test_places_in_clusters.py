"""Places of largest values of rows that the blocks of a cluster take together, by way of PTX."""

from functools import cache

import numpy as np
import pytest
from ptx_library import NVCC, PtxDevice, from_cuda

from agent.kernels import sources

pytestmark = pytest.mark.skipif(NVCC is None, reason="no nvcc: PTX cannot be made from CUDA here")

KERNEL = """
#define KW_DTYPES 0
#include "reduction/csrc/launch.cuh"
template __global__ void kernelwright::reduction::places_in_clusters<float, 4>(
    const kernelwright::Pack<float, 4>*, int64_t*, int, int);
"""
BLOCKS, WARP, VECTOR = 8, 32, 4


@cache
def _device() -> PtxDevice:
    source = PtxDevice.scratch("places_in_clusters.cu", KERNEL)
    return PtxDevice(source, from_cuda(source, [sources.ROOT], "sm_90a"), checked=True)


@pytest.mark.parametrize("warps", [1, 3])
@pytest.mark.parametrize("packs", [9, 1003])
def test_places(packs: int, warps: int) -> None:
    """Of equal values the first, of NaN too; a row of -inf alone. Of 9 packs three blocks have none."""
    device, length = _device(), packs * VECTOR
    x = np.random.default_rng(0).integers(-50, 50, (6, length)).astype("float32")
    x[1], x[2, [5, length - 2]], x[3, length - 1] = -np.inf, np.nan, 99
    x[4, 0], x[5] = np.inf, 7
    rows, part = device.array(x), -(-packs // BLOCKS)
    places = device.empty(len(x), "int64")
    device.reset()
    device.cluster = (BLOCKS, 1, 1)
    device.launch(
        "places_in_clusters", len(x) * BLOCKS, warps * WARP, rows, places, np.int32(packs), np.int32(part)
    )
    assert device.findings() == []
    np.testing.assert_array_equal(places, np.argmax(x, 1))
