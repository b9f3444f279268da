"""matmul_fp32x3 of few tiles, from the PTX of its launches: in any order of blocks, of any layout."""

import ctypes
import struct
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import torch
from device_library import Array
from kernels.device.matmul_launches import CSRC, MOST_SHARED, ORDERS, draw, host_library, off_by
from kernels.device.test_matmul_small_values import cancelling, rms_over_floats
from ptx_library import NVCC, PtxDevice, from_cuda

from agent.kernels.matmul_fp32x3.product import FORWARD, PARTS, PRECISIONS
from agent.torch_shim import c_abi

pytestmark = pytest.mark.skipif(NVCC is None, reason="no nvcc: PTX cannot be made from CUDA here")

DEVICE = """
#include "few_tiles_sm90.cuh"
using namespace kernelwright::matmul;
template __global__ void kernelwright::matmul::matmul_split_once<false>(const __grid_constant__ Operands);
template __global__ void kernelwright::matmul::matmul_split_once<true>(const __grid_constant__ Operands);
template __global__ void kernelwright::matmul::matmul_few<false>(const __grid_constant__ Product);
template __global__ void kernelwright::matmul::matmul_few<true>(const __grid_constant__ Product);
"""
HOST = """
#include "launch.cuh"
using namespace kernelwright::matmul;
extern "C" int64_t workspace_bytes(const Forward* args, int64_t sms) {
    const Plan plan = plan_of(*args, sms);
    return plan.few ? plan.bytes : -1;
}
struct Launch {
    int64_t blocks, threads, shared, begin, bytes;  // of the kernel's argument in the product
};
extern "C" void told(const Forward* args, int64_t sms, Product* product, Launch* launches) {
    Plan plan = plan_of(*args, sms);
    *product = product_of(*args, plan);
    const int64_t begin = offsetof(Product, plain);
    launches[0] = {split_blocks(product->plain), kBothThreads, kBothShared, begin, sizeof(Operands)};
    launches[1] = {kTogether * product->cut.tiles, kThreads, kFewSharedBytes, 0, sizeof(Product)};
}
"""
SMS = 16
EXACT = 2.0**-20
SIZES = [
    (1, 1, 1, 40), (1, 130, 9, 700), (1, 256, 140, 100), (1, 3, 300, 129), (3, 20, 24, 70), (1, 300, 5, 64),
    (8, 7, 20, 1100),
]  # fmt: skip
"""Batch, rows, columns, depth: what sixteen SMs have room for; beyond 1024 a block keeps fewer columns."""
SIDES: dict[str, Callable[[Array], Array]] = {"whole": np.array, "lower": np.tril, "upper": np.triu}


@cache
def device() -> PtxDevice:
    source = PtxDevice.scratch("matmul_few_tiles.cu", DEVICE)
    return PtxDevice(source, from_cuda(source, [CSRC], "sm_90a"), checked=True)


@cache
def host() -> ctypes.CDLL:
    return host_library("matmul_few_tiles", HOST)


def laid(values: Array, transposed: bool) -> tuple[Array, tuple[int, int, int]]:
    """In device memory, with the steps of elements."""
    batch, rows, columns = values.shape
    if not transposed:
        return device().array(values), (rows * columns if batch > 1 else 0, columns, 1)
    return device().array(values.transpose(0, 2, 1).copy()), (rows * columns if batch > 1 else 0, 1, rows)


def product(
    a: Array, b: Array, lies: str = "nn", precision: str = "fp32x3", c: Array | None = None,
    parts: tuple[str, str, str] = ("whole", "whole", "whole"),
) -> Array:  # fmt: skip
    batch, m, k = a.shape
    n = b.shape[2]
    y = device().empty((batch, m, n))
    y[...] = np.nan
    (of_a, a_steps), (of_b, b_steps) = (laid(v, lie == "t") for v, lie in zip((a, b), lies, strict=True))
    of_c, c_steps = (None, (0, 0, 0)) if c is None else laid(c, False)
    steps = (*a_steps, *b_steps, *c_steps, PRECISIONS[precision], *(PARTS[part] for part in parts), 1.0, 1.0)
    sms = ctypes.c_int64(SMS)

    def packed(workspace: Array | None) -> ctypes.Array[ctypes.c_char]:
        tensors = [0 if v is None else v.ctypes.data for v in (of_a, of_b, of_c, y, workspace)]
        return ctypes.create_string_buffer(struct.pack(f"@{FORWARD}", *tensors, batch, m, n, k, *steps, 0, 0))

    needed = host().workspace_bytes(packed(None), sms)
    assert needed > 0, "too many tiles"
    workspace = device().empty(needed + 256, "uint8")
    workspace = workspace[-workspace.ctypes.data % 256 :]
    told, launches = ctypes.create_string_buffer(4096), (ctypes.c_int64 * 10)()
    host().told(packed(workspace), sms, told, launches)
    every = precision == "fp32x4" or k <= 512
    for number, name in enumerate((f"matmul_split_onceILb{int(not every)}E", f"matmul_fewILb{int(every)}E")):
        blocks, threads, shared, begin, size = launches[5 * number : 5 * number + 5]
        device().cluster = (number + 1, 1, 1)
        device().runtime.kw_set_function_attribute(device().kernel(name).name.encode(), MOST_SHARED, shared)
        device().launch_with(name, ((blocks, 1, 1), (threads, 1, 1), shared), told.raw[begin : begin + size])
    # The factors, read by ordinary loads, are used before the arrival that frees their stage (ADR 28).
    assert {finding["kind"] for finding in device().findings()} <= {"missing-proxy-fence"}
    return y.astype("float64")


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_any_sizes(size: tuple[int, int, int, int]) -> None:
    batch, m, n, k = size
    a, b = draw(1, batch, m, k), draw(2, batch, k, n)
    assert off_by(product(a, b), a, b) < EXACT


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("lies", ["nn", "nt", "tn", "tt"])
def test_any_layout_in_any_order(lies: str, order: int) -> None:
    a, b, c = draw(1, 1, 140, 290), draw(2, 1, 290, 132), draw(3, 1, 140, 132)
    device().runtime.kw_draw(c_abi.MEMORY_ONES, order, 11)
    device().runtime.kw_check(1)
    try:
        y = product(a, b, lies, c=c)
    finally:
        device().runtime.kw_check(0)
        device().runtime.kw_draw(c_abi.MEMORY_ONES, c_abi.ORDER_FORWARD, 0)
    wanted = a.astype("float64") @ b + c
    assert float((np.abs(y - wanted) / (np.abs(a) @ np.abs(b) + np.abs(c))).max()) < EXACT


@pytest.mark.parametrize("lies", ["nn", "tt"])
@pytest.mark.parametrize("turned", [False, True], ids=["in a", "in b"])
def test_large_values_that_meet_zeros_cost_the_others_nothing(turned: bool, lies: str) -> None:
    a, b = draw(31, 1, 20, 290), draw(32, 1, 290, 140)
    a[:, :, ::8] *= np.float32(2.0**40)
    b[:, ::8] = 0
    off = off_by(product(a, b, lies), np.where(np.abs(a) < 2.0**20, a, 0), b)
    if turned:
        a, b = b.transpose(0, 2, 1).copy(), a.transpose(0, 2, 1).copy()
        off = off_by(product(a, b, lies), a, np.where(np.abs(b) < 2.0**20, b, 0))
    assert off < EXACT


@pytest.mark.parametrize("lies", ["nn", "tt"])
def test_products_that_cancel_one_after_the_other_cost_no_more_than_floats(lies: str) -> None:
    a, b = cancelling(51, 140, 132, 290)
    a, b = a[None], b.T.copy()[None]
    assert rms_over_floats(product(a, b, lies), a, b) < 2


@pytest.mark.parametrize("lies", ["nn", "tt"])
@pytest.mark.parametrize("precision", ["fp32x3", "fp32x4"])
def test_infinities_and_nan_stand_where_floats_are(precision: str, lies: str) -> None:
    a, b = draw(7, 1, 130, 600), draw(8, 1, 600, 140)
    b[0, 7, 4], b[0, 7, 5] = 1.0, 0.0
    a[0, 3], a[0, 5, 7], a[0, 6, 7:9], a[0, 9, 11] = 0, np.inf, (np.inf, -np.inf), np.nan
    b[0, 7, 8], b[0, 20, 9], b[0, 3, 10] = np.inf, -np.inf, np.nan
    y = product(a, b, lies, precision)
    wanted = torch.matmul(torch.tensor(a.copy()), torch.tensor(b.copy())).numpy()
    np.testing.assert_array_equal(np.isnan(y), np.isnan(wanted))
    np.testing.assert_array_equal(y[np.isinf(wanted)], wanted[np.isinf(wanted)])
    assert np.isfinite(y[np.isfinite(wanted)]).all()


@pytest.mark.parametrize("of_b", PARTS)
@pytest.mark.parametrize("of_a", PARTS)
def test_triangular_operands_are_read_on_their_side_alone(of_a: str, of_b: str) -> None:
    a, b = draw(1, 1, 140, 200), draw(2, 1, 200, 300)
    wanted_a, wanted_b = SIDES[of_a](a), SIDES[of_b](b)
    a[wanted_a == 0], b[wanted_b == 0] = 1e30, np.nan
    y = product(a, b, parts=(of_a, of_b, "whole"))
    terms = np.abs(wanted_a).astype("float64") @ np.abs(wanted_b)
    assert (np.abs(y - wanted_a.astype("float64") @ wanted_b) <= EXACT * terms).all()
