"""float's accuracy from three fp16 products: splitting, layout and pipeline, instructions replaced."""

import ctypes
import struct
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from device_library import Array, Device, build_runtime
from kernels.device.group_norm_library import one_text

HERE = Path(__file__).parent
SOURCE = HERE.parents[2] / "benchmarks" / "kernels" / "linear_group_norm_min.cuh"
STAND_IN = {
    "sm90_instructions.cuh": HERE / "sm90_stand_in.cuh",
    "matrix_sm90.cuh": HERE / "matrix_stand_in.cuh",
}
FACE = """
using namespace kernelwright::linear;
extern "C" int run_split(const float* values, int rows, int k, unsigned char* packed, float* unscale) {
    split_rows<<<rows, kSplitThreads>>>(values, k, packed, unscale);
    return cudaGetLastError();
}
extern "C" int run_product(const Product* p, float* y, int blocks) {
    const auto kernel = linear_fp32x3<2, StoreTile>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
    kernel<<<blocks, kThreads, kSharedBytes>>>(*p, StoreTile{y});
    return cudaGetLastError();
}
extern "C" int run_least(
    const Product* p, const float* parameters, const float* spread, float* smallest, float* out) {
    const LeastOfGroups<16> finish = {parameters, parameters + p->n, 1e-5f, smallest};
    const auto kernel = linear_fp32x3<2, LeastOfGroups<16>>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
    kernel<<<2, kThreads, kSharedBytes>>>(*p, finish);
    const dim3 grid((p->m + kSpreadThreads - 1) / kSpreadThreads, (p->n + 63) / 64);
    spread_least<<<grid, kSpreadThreads>>>(smallest, p->n / kTile, spread, out, p->m, p->n, 64);
    return cudaGetLastError();
}
"""


@cache
def built() -> Device:
    source = build_runtime().parent / "linear_fp32x3.cu"
    source.write_text(one_text([str(SOURCE)], STAND_IN) + FACE)
    return Device(source)


def split(values: Array) -> tuple[Array, Array]:
    """Packed rows, and what takes their scaling back."""
    device = built()
    rows, k = values.shape
    packed, unscale = device.empty(rows * k * 4, "uint8"), device.empty(rows)
    assert device.call("run_split", device.array(values), rows, k, packed, unscale) == 0
    return packed, unscale


def packed_product(x: Array, weight: Array, bias: Array | None) -> tuple[Any, list[Array | None]]:
    """The struct Product, and the arrays that it points to."""
    x_packed, x_unscale = split(x)
    weight_packed, weight_unscale = split(weight)
    placed = None if bias is None else built().array(bias)
    named = [x_packed, weight_packed, x_unscale, weight_unscale, placed]
    pointers = [0 if values is None else values.ctypes.data for values in named]
    packed = struct.pack("<5Q4i", *pointers, len(x), len(weight), x.shape[1], 0)
    return ctypes.create_string_buffer(packed), named


def product(x: Array, weight: Array, bias: Array | None, blocks: int) -> Array:
    y = built().empty((len(x), len(weight)))
    packed, _ = packed_product(x, weight, bias)
    assert built().call("run_product", packed, y, blocks) == 0
    return y.astype("float64")


def draw(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def off_by(y: Array, x: Array, weight: Array, bias: Array | float) -> float:
    """The largest error, over the sum of the products' absolute values."""
    x, weight = x.astype("float64"), weight.astype("float64")
    return float((np.abs(y - (x @ weight.T + bias)) / (np.abs(x) @ np.abs(weight).T)).max())


# hi * hi alone is 2^-12 off, without one of the cross terms 2^-13.
EXACT = 2.0**-20


@pytest.mark.parametrize("blocks", [1, 2])
def test_rows_of_any_scale(blocks: int) -> None:
    x, weight, bias = draw(1, 128, 256), draw(2, 256, 256), draw(3, 256)
    bias[:] = 0
    x *= (10.0 ** np.linspace(-30, 20, 128)).astype("float32")[:, None]
    weight *= (10.0 ** np.linspace(-6, 6, 256)).astype("float32")[:, None]
    assert off_by(product(x, weight, bias, blocks), x, weight, bias) < EXACT


def test_a_bias_is_added_and_stages_are_used_again() -> None:
    x, weight, bias = draw(4, 128, 640), draw(5, 128, 640), draw(6, 128)
    assert off_by(product(x, weight, bias, 1), x, weight, bias) < EXACT
    assert off_by(product(x, weight, None, 1), x, weight, 0.0) < EXACT


def test_a_row_that_is_zero_or_not_finite() -> None:
    x, weight = draw(7, 128, 128), draw(8, 128, 128)
    x[3], x[5, 7], x[9, 11] = 0, np.inf, np.nan
    y = product(x, weight, None, 1)
    np.testing.assert_array_equal(np.isnan(y).all(1), np.isin(np.arange(128), [5, 9]))
    np.testing.assert_array_equal(np.isnan(y).any(1), np.isin(np.arange(128), [5, 9]))
    assert (y[3] == 0).all()


def test_the_smallest_value_after_the_norm() -> None:
    x, weight, bias = draw(9, 128, 128), draw(10, 256, 128), draw(11, 256)
    parameters, spread = draw(12, 2, 256), draw(13, 256)
    x[17, 3] = np.nan
    device = built()
    packed, _ = packed_product(x, weight, bias)
    smallest, out = device.empty((2, 128)), device.empty((256, 128))
    arguments = (device.array(parameters), device.array(spread), smallest, out)
    assert device.call("run_least", packed, *arguments) == 0
    x64, weight64, bias64, gamma, beta, spread64 = (
        torch.tensor(v.astype("float64")) for v in (x, weight, bias, *parameters, spread)
    )
    y = torch.nn.functional.group_norm(
        torch.nn.functional.linear(x64, weight64, bias64), 16, gamma, beta, 1e-5
    )
    wanted = y.min(1).values + spread64[:, None]
    np.testing.assert_allclose(out, wanted.numpy(), rtol=2e-6, atol=2e-6)
