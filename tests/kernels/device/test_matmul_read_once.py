"""matmul_fp32x3 with operands that are read once, from its PTX: any sizes and layouts in any order."""

import ctypes
import struct
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import torch
from device_library import Array
from kernels.device.matmul_launches import CSRC, MOST_SHARED, ORDERS, draw, host_library, off_by
from ptx_library import NVCC, PtxDevice, from_cuda

from agent.kernels.matmul_fp32x3.product import FORWARD, PRECISIONS, is_read_once_at
from agent.torch_shim import c_abi

pytestmark = pytest.mark.skipif(NVCC is None, reason="no nvcc: PTX cannot be made from CUDA here")

DEVICE = """
#include "add_parts_sm90.cuh"
using namespace kernelwright::matmul;
#define ONE(...) template __global__ void kernelwright::matmul::__VA_ARGS__(const __grid_constant__ ReadOnce);
ONE(matmul_read_once<32, false>)
ONE(matmul_read_once<64, false>)
ONE(matmul_read_once<128, false>)
ONE(matmul_read_once<128, true>)
"""
HOST = """
#include "launch.cuh"
using namespace kernelwright::matmul;
extern "C" int64_t workspace_bytes(const Forward* args, int64_t sms) {
    const ReadPlan plan = read_plan(*args, sms);
    return plan.fits ? plan.bytes : -1;
}
extern "C" int takes(const Forward* args, int64_t sms) { return reads_once(*args, read_plan(*args, sms)); }
extern "C" int by_halves(const Forward* args, int64_t sms) { return read_plan(*args, sms).halves; }
// The kernels' argument, and their blocks, threads, bytes of shared memory, columns of a tile, and whether
// what is stored is added up.
extern "C" int told(const Forward* args, int64_t sms, ReadOnce* product, int64_t* launch) {
    const ReadPlan plan = read_plan(*args, sms);
    *product = read_once_of(*args, plan);
    launch[0] = plan.tiles * plan.parts;
    launch[1] = kReadThreads;
    launch[2] = plan.columns == 128  ? kReadBytes<128>
                : plan.columns == 64 ? kReadBytes<64>
                                     : kReadBytes<32>;
    launch[3] = plan.columns;
    launch[4] = plan.adds;
    launch[5] = kAddThreads;
    launch[6] = added_by_block(plan.parts);
    return sizeof(ReadOnce);
}
"""
SMS = 24
EXACT = 2.0**-22
"""Without one of the six products 2^-17 or more is off; rounding the sums costs the rest."""
SIZES = [
    (1, 1, 1), (1, 132, 40), (130, 140, 100), (16, 300, 620), (300, 20, 257), (64, 129, 64), (129, 40, 1100),
    (20, 30, 2100), (66, 68, 30724),
]  # fmt: skip
"""Rows, columns, depth."""
SIZES_OF_HALVES = [(65, 65, 33), (130, 140, 100), (100, 132, 620), (260, 70, 2100), (66, 68, 30724)]
"""Of which more than 64 columns are a tile's."""


@cache
def device() -> PtxDevice:
    source = PtxDevice.scratch("matmul_read_once.cu", DEVICE)
    return PtxDevice(source, from_cuda(source, [CSRC], "sm_90a"), checked=True)


@cache
def host() -> ctypes.CDLL:
    return host_library("matmul_read_once", HOST)


def laid(values: Array, transposed: bool) -> tuple[Array, tuple[int, int, int]]:
    """In device memory, rows padded with NaN to four elements, with the steps of elements."""
    values = values.T if transposed else values
    rows, columns = values.shape
    step = -(-columns // 4) * 4
    room = device().empty((rows, step))
    room[...] = np.nan
    room[:, :columns] = values
    return room, ((0, 1, step) if transposed else (0, step, 1))


def product(
    a: Array, b: Array, lies: str = "nn", halves: bool = False, c: Array | None = None,
    scales: tuple[float, float] = (1.0, 1.0),
) -> Array:  # fmt: skip
    """scales[0] * a @ b + scales[1] * c, by three bf16 of each value or, where that is enough, two fp16."""
    (m, k), n = a.shape, b.shape[1]
    y = device().empty((m, n))
    y[...] = np.nan
    (of_a, a_steps), (of_b, b_steps) = (laid(v, lie == "t") for v, lie in zip((a, b), lies, strict=True))
    of_c, c_steps = (None, (0, 0, 0)) if c is None else (device().array(c), (0, n, 1))
    steps = (*a_steps, *b_steps, *c_steps, PRECISIONS["bf16x6"], 0, 0, 0, *scales)
    sms = ctypes.c_int64(SMS)

    def packed(workspace: Array | None) -> ctypes.Array[ctypes.c_char]:
        tensors = [0 if v is None else v.ctypes.data for v in (of_a, of_b, of_c, y, workspace)]
        return ctypes.create_string_buffer(struct.pack(f"@{FORWARD}", *tensors, 1, m, n, k, *steps, 0, 0))

    needed = host().workspace_bytes(packed(None), sms)
    assert needed >= 0, "not read once"
    workspace = device().empty(needed, "uint8") if needed else None
    told, launch = ctypes.create_string_buffer(4096), (ctypes.c_int64 * 7)()
    size = host().told(packed(workspace), sms, told, launch)
    blocks, threads, shared, columns, adds, add_threads, added = launch
    name = f"matmul_read_onceILi{columns}ELb{halves:d}E"
    device().runtime.kw_set_function_attribute(device().kernel(name).name.encode(), MOST_SHARED, shared)
    device().launch_with(name, ((blocks, 1, 1), (threads, 1, 1), shared), told.raw[:size])
    if adds:
        adding = ((-(-m * n // added), 1, 1), (add_threads, 1, 1), 0)
        device().launch_with("matmul_add_parts", adding, told.raw[:size])
    assert device().findings() == []
    return y.astype("float64")


@pytest.mark.parametrize("k", [1024, 4096, 524288])
def test_what_is_sent_to_be_read_once_is(k: int) -> None:
    """The rule that leaves calls to torch and the launcher's have to name the same products."""
    sizes = [8, 16, 128, 256, 384, 688, 696, 700, 704, 4096, 11008, 128256]
    sent = [(m, n) for m in sizes for n in sizes if is_read_once_at(m, n, k)]
    assert len(sent) > 20
    for m, n in sent:
        steps = (m * k, k, 1, k * n, n, 1, 0, 0, 0, PRECISIONS["fp32x3"], 0, 0, 0, 1.0, 1.0)
        args = struct.pack(f"@{FORWARD}", *(1 << 8 for _ in range(4)), 0, 1, m, n, k, *steps, 0, 0)
        assert host().takes(ctypes.create_string_buffer(args), ctypes.c_int64(132)), (m, n)


@pytest.mark.parametrize(
    ("size", "halves"),
    [*((size, False) for size in SIZES), *((size, True) for size in SIZES_OF_HALVES)],
    ids=str,
)
def test_any_sizes(size: tuple[int, int, int], halves: bool) -> None:
    m, n, k = size
    a, b = draw(1, m, k), draw(2, k, n)
    assert off_by(product(a, b, halves=halves), a, b) < EXACT


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("lies", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize(
    ("size", "halves"),
    [((130, 30, 300), False), ((50, 134, 140), False), ((130, 70, 300), True), ((66, 134, 140), True)],
    ids=str,
)
def test_any_layout_in_any_order(size: tuple[int, int, int], lies: str, order: int, halves: bool) -> None:
    m, n, k = size
    a, b, c = draw(1, m, k), draw(2, k, n), draw(3, m, n)
    device().runtime.kw_draw(c_abi.MEMORY_ONES, order, 11)
    device().runtime.kw_check(1)
    try:
        y = product(a, b, lies, halves, c, (-0.5, 2.0))
    finally:
        device().runtime.kw_check(0)
        device().runtime.kw_draw(c_abi.MEMORY_ONES, c_abi.ORDER_FORWARD, 0)
    wanted = -0.5 * (a.astype("float64") @ b) + 2.0 * c
    assert float((np.abs(y - wanted) / (np.abs(a) @ np.abs(b) + np.abs(c))).max()) < 2 * EXACT


@pytest.mark.parametrize("halves", [False, True])
@pytest.mark.parametrize("lies", ["nn", "tt"])
def test_values_of_any_size_stand_beside_each_other(lies: str, halves: bool) -> None:
    """Also near the largest float, where a first part that is rounded up would be infinite."""
    a, b = draw(1, 80, 200), draw(2, 200, 130)
    a *= (10.0 ** np.random.default_rng(3).uniform(-20, 20, a.shape)).astype("float32")
    b[::8] = 0
    a[:, ::8] = np.float32(3.4028235e38)
    b[8, 3], b[16, 129] = 0.25, -0.25
    assert off_by(product(a, b, lies, halves), a, b) < EXACT


def masked(a: Array, b: Array) -> None:
    """Every eighth value of a is large and meets 0."""
    a[:, ::8] *= np.float32(2.0**20)
    b[::8] = 0


def cancelling(a: Array, b: Array) -> None:
    """Products cancel pair by pair."""
    a[:, 1::2], b[1::2] = -a[:, ::2], b[::2]


def without_rows(a: Array, b: Array) -> None:
    """Rows of zeros, and zeros for half of the depth."""
    a[3:20] = b[512:] = 0


def of_any_size(a: Array, b: Array) -> None:
    """Columns of any size, rows of other sizes too, and values that grow over the depth."""
    b *= np.float32(2.0) ** (np.arange(b.shape[1]) % 50 - 25).astype("float32")
    a *= np.float32(2.0) ** (np.arange(a.shape[0]) % 8).astype("float32")[:, None]
    b[256:] *= 8


def outlying(a: Array, b: Array) -> None:
    """One row and one place of the depth far above the others."""
    a[50] *= 100
    b[300] *= 100


def of_far_sizes(a: Array, b: Array) -> None:
    """Rows beside others that are 2^30 times as large."""
    a[::7] *= np.float32(2.0**-30)


@pytest.mark.parametrize("lies", ["nn", "tt"])
@pytest.mark.parametrize("change", [without_rows, of_any_size, outlying, masked, cancelling, of_far_sizes])
def test_what_two_fp16_may_show_is_computed_anew(change: Callable[[Array, Array], None], lies: str) -> None:
    """And nothing else: three bf16 give other bits."""
    a, b = draw(11, 100, 1024), draw(12, 1024, 132)
    change(a, b)
    y, by_thirds = product(a, b, lies, True), product(a, b, lies)
    assert np.array_equal(y, by_thirds) == (change in (masked, cancelling, of_far_sizes))
    assert off_by(y, a, b) < EXACT


@pytest.mark.parametrize(
    ("precision", "m", "k", "halves"),
    [("fp32x3", 65, 1024, 1), ("fp32x3", 64, 1024, 0), ("fp32x3", 65, 1020, 0), ("bf16x6", 65, 1024, 0)],
)
def test_two_fp16_are_taken_for_wide_tiles_and_deep_products(
    precision: str, m: int, k: int, halves: int
) -> None:
    steps = (0, k, 1, 0, 128, 1, 0, 0, 0, PRECISIONS[precision], 0, 0, 0, 1.0, 1.0)
    args = struct.pack(f"@{FORWARD}", *(1 << 8 for _ in range(4)), 0, 1, m, 128, k, *steps, 0, 0)
    assert host().by_halves(ctypes.create_string_buffer(args), ctypes.c_int64(132)) == halves


@pytest.mark.parametrize("halves", [False, True])
@pytest.mark.parametrize("lies", ["nn", "tt"])
@pytest.mark.parametrize("turned", [False, True])
def test_infinities_and_nan_stand_where_floats_are(turned: bool, lies: str, halves: bool) -> None:
    a, b = draw(7, 130, 200), draw(8, 200, 100)
    b[7, 4], b[7, 5] = 1.0, 0.0
    a[3], a[5, 7], a[6, 7:9], a[9, 11] = 0, np.inf, (np.inf, -np.inf), np.nan
    b[7, 8], b[20, 9], b[3, 10], b[7, 11] = np.inf, -np.inf, np.nan, 1e-30
    if turned:
        a, b = b.T.copy(), a.T.copy()
    y = product(a, b, lies, halves)
    wanted = torch.matmul(torch.tensor(a.copy()), torch.tensor(b.copy())).numpy()
    np.testing.assert_array_equal(np.isnan(y), np.isnan(wanted))
    np.testing.assert_array_equal(y[np.isinf(wanted)], wanted[np.isinf(wanted)])
    assert np.isfinite(y[np.isfinite(wanted)]).all()


@pytest.mark.parametrize("halves", [False, True])
def test_what_is_left_out_has_either_sign(halves: bool) -> None:
    """Values of both signs of which all parts but the first are positive and as large as they can be.

    Were the parts the nearest bf16 in both operands, what is left out would add up.
    """
    rng = np.random.default_rng(5)
    above, below = 1 + 2.0**-8 - 2.0**-17, -(1 + 2.0**-8 + 2.0**-15 - 2.0**-17)
    a, b = (np.where(rng.random(s) < 0.5, above, below).astype("float32") for s in ((72, 2048), (2048, 66)))
    wanted = a.astype("float64") @ b.astype("float64")
    error = np.sqrt(np.mean((product(a, b, "nt", halves) - wanted) ** 2))
    sums = np.zeros_like(wanted, dtype="float32")
    for i in range(a.shape[1]):
        sums += a[:, i : i + 1] * b[i]
    assert error < np.sqrt(np.mean((sums - wanted) ** 2))
