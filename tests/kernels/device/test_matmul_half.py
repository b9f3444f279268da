"""matmul_half on the emulator, with its instructions replaced and every access checked."""

import ctypes
import struct
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from device_library import Array, Device, build_runtime
from kernels.device.group_norm_library import one_text, read, stored

from agent.kernels import sources
from agent.kernels.matmul_half.operator import FORWARD, ROWS

HERE = Path(__file__).parent
SOURCE = HERE.parents[2] / "agent" / "kernels" / "matmul_half" / "csrc" / "launch.cuh"
FACE = """
using namespace kernelwright;
extern "C" int run_product(const void* p) {
    return matmul_half::forward(*static_cast<const matmul_half::Forward*>(p));
}
extern "C" int run_copy_rows(const void* p) {
    return matmul_half::copy_rows(*static_cast<const matmul_half::Rows*>(p));
}
"""
ROUNDED = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
SUMMED = 2.0**-20
"""Of the sum of the products' sizes: what sums in float32 are off."""
DTYPES = pytest.mark.parametrize("dtype", list(ROUNDED))
PATHS = pytest.mark.parametrize("path", ["sm80", "sm90"])
LAYOUTS = ("plain", "transposed", "strided", "shared", "unaligned")


STAND_IN = {
    "warp_sm80.cuh": HERE / "warp_stand_in.cuh",
    "bulk_sm90.cuh": HERE / "bulk_stand_in.cuh",
    "matrix_sm90.cuh": HERE / "matrix_stand_in.cuh",
    "warpgroups_sm90.cuh": HERE / "warpgroups_stand_in.cuh",
    "products_sm90.cuh": HERE / "products_stand_in.cuh",
}


@cache
def built(path: str = "sm80") -> Device:
    """With the path for every GPU alone, whose accesses are checked, or with that for sm_90a."""
    source = build_runtime().parent / f"matmul_half_{path}.cu"
    portable = path == "sm80"
    selected = "#define KW_PORTABLE_ONLY\n" if portable else "#define __CUDA_ARCH_FEAT_SM90_ALL 1\n"
    source.write_text(selected + one_text([str(SOURCE), str(SOURCE.with_name("rows.cuh"))], STAND_IN) + FACE)
    return Device(source, checked=portable)


def draw(seed: int, dtype: str, *shape: int) -> Array:
    return stored(np.random.default_rng(seed).standard_normal(shape).astype("float32"), dtype)


def laid(values: Array, layout: str) -> tuple[Array, tuple[int, int, int]]:
    """The matrices in device memory, and their steps of elements; `shared` keeps the first of them alone."""
    batch, rows, columns = values.shape
    if layout == "shared":
        values = values[:1]
    if layout == "transposed":
        room = built().empty((batch, columns, rows), values.dtype.name)
        room[...] = values.transpose(0, 2, 1)
        return room, (rows * columns, 1, rows)
    wide = columns * (2 if layout == "strided" else 1)
    begin = 1 if layout == "unaligned" else 0
    room = built().empty(len(values) * rows * wide + begin, values.dtype.name)[begin:]
    room = room.reshape(len(values), rows, wide)
    room[:, :, :: wide // columns] = values
    return room, (0 if layout == "shared" else rows * wide, wide, wide // columns)


def product(
    a: Array, b: Array, dtype: str, layouts: tuple[str, str] = ("plain", "plain"),
    added: tuple[float, Array | None, float] = (1.0, None, 1.0), path: str = "sm80",
) -> Array:  # fmt: skip
    (batch, m, k), n = a.shape, b.shape[2]
    device = built(path)
    y = device.empty((batch, m, n), a.dtype.name)
    y[...] = stored(np.full(1, np.nan, "float32"), dtype)[0]
    (of_a, a_steps), (of_b, b_steps) = laid(a, layouts[0]), laid(b, layouts[1])
    alpha, c, beta = added
    of_c, c_steps = (None, (0, 0, 0)) if c is None else laid(c, "plain" if len(c) > 1 else "shared")
    tensors = [0 if v is None else v.ctypes.data for v in (of_a, of_b, of_c, y)]
    steps = (*a_steps, *b_steps, *c_steps, sources.DTYPES.index(dtype), alpha, beta, 0, 0)
    device.runtime.kw_clear_findings()
    packed = struct.pack(f"@{FORWARD}", *tensors, batch, m, n, k, *steps)
    assert device.call("run_product", ctypes.create_string_buffer(packed)) == 0
    assert device.findings() == []
    return read(y, dtype)


def is_near(y: Array, wanted: Array, terms: Array, dtype: str) -> bool:
    return bool((np.abs(y - wanted) <= ROUNDED[dtype] * np.abs(wanted) + SUMMED * terms).all())


@DTYPES
@pytest.mark.parametrize(
    "size", [(1, 1, 1, 1), (2, 3, 130, 67), (1, 129, 7, 320), (1, 16, 24, 1000), (1, 136, 264, 96)], ids=str
)
@PATHS
def test_any_sizes(path: str, size: tuple[int, int, int, int], dtype: str) -> None:
    batch, m, n, k = size
    a, b = draw(1, dtype, batch, m, k), draw(2, dtype, batch, k, n)
    exact_a, exact_b = read(a, dtype), read(b, dtype)
    y = product(a, b, dtype, path=path)
    assert is_near(y, exact_a @ exact_b, np.abs(exact_a) @ np.abs(exact_b), dtype)


@DTYPES
@pytest.mark.parametrize("of_a", LAYOUTS)
@pytest.mark.parametrize("of_b", LAYOUTS)
@PATHS
def test_any_layout(path: str, of_a: str, of_b: str, dtype: str) -> None:
    a, b = draw(1, dtype, 2, 40, 72), draw(2, dtype, 2, 72, 56)
    a = np.stack([a[0]] * 2) if of_a == "shared" else a
    b = np.stack([b[0]] * 2) if of_b == "shared" else b
    exact_a, exact_b = read(a, dtype), read(b, dtype)
    terms = np.abs(exact_a) @ np.abs(exact_b)
    assert is_near(product(a, b, dtype, (of_a, of_b), path=path), exact_a @ exact_b, terms, dtype)


@DTYPES
@pytest.mark.parametrize("batch", [1, 2])
def test_something_is_added_before_the_one_rounding(batch: int, dtype: str) -> None:
    a, b, c = draw(1, dtype, 2, 5, 40), draw(2, dtype, 2, 40, 7), draw(3, dtype, batch, 5, 7)
    y = product(a, b, dtype, added=(-0.5, c, 3.0))
    exact_a, exact_b, exact_c = read(a, dtype), read(b, dtype), read(c, dtype)
    terms = np.abs(exact_a) @ np.abs(exact_b) + 3 * np.abs(exact_c)
    assert is_near(y, -0.5 * (exact_a @ exact_b) + 3.0 * exact_c, terms, dtype)


@DTYPES
def test_infinities_and_nan_stand_where_floats_are(dtype: str) -> None:
    values = np.random.default_rng(7).standard_normal((1, 20, 64)).astype("float32")
    values[0, 3], values[0, 5, 7], values[0, 6, 7:9], values[0, 9, 11] = 0, np.inf, (np.inf, -np.inf), np.nan
    a, b = stored(values, dtype), draw(8, dtype, 1, 64, 20)
    y = product(a, b, dtype)
    with np.errstate(invalid="ignore"):
        wanted = read(a, dtype) @ read(b, dtype)
    np.testing.assert_array_equal(np.isnan(y), np.isnan(wanted))
    np.testing.assert_array_equal(y[np.isinf(wanted)], wanted[np.isinf(wanted)])


@pytest.mark.parametrize("begin", [0, 1])
@pytest.mark.parametrize("sizes", [(9, 5, 9, 8), (5, 2051, 8, 2056), (9, 8, 9, 5), (3, 4, 2, 1)], ids=str)
def test_rows_get_zeros_and_lose_them(sizes: tuple[int, int, int, int], begin: int) -> None:
    """Wherever the first of them begins."""
    from_rows, from_length, rows, length = sizes
    device = built()
    of = device.empty(from_rows * from_length + begin, "uint16")[begin:].reshape(from_rows, from_length)
    of[...] = np.arange(1, of.size + 1).reshape(of.shape)
    y = device.empty(rows * length + begin, "uint16")[begin:].reshape(rows, length)
    y[...] = 9
    device.runtime.kw_clear_findings()
    packed = struct.pack(f"@{ROWS}", of.ctypes.data, y.ctypes.data, *sizes, 0, 0)
    assert device.call("run_copy_rows", ctypes.create_string_buffer(packed)) == 0
    assert device.findings() == []
    wanted = np.zeros((rows, length), "uint16")
    wanted[:from_rows, :from_length] = of[:rows, :length]
    np.testing.assert_array_equal(y, wanted)
