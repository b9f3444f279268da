"""matmul_fp32x3 on the emulator: both paths, that of the tensor cores with its instructions replaced."""

import ctypes
import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from device_library import Array, Device, build_runtime
from kernels.device.group_norm_library import one_text

from agent.kernels.matmul_fp32x3.product import FORWARD, PARTS, PRECISIONS

HERE = Path(__file__).parent
SOURCE = HERE.parents[2] / "agent" / "kernels" / "matmul_fp32x3" / "csrc" / "launch.cuh"
STAND_IN = {
    "bulk_sm90.cuh": HERE / "bulk_stand_in.cuh",
    "matrix_sm90.cuh": HERE / "matrix_stand_in.cuh",
    "warpgroups_sm90.cuh": HERE / "warpgroups_stand_in.cuh",
    "few_tiles_sm90.cuh": HERE / "few_tiles_stand_in.cuh",
    "turns_sm90.cuh": HERE / "turns_stand_in.cuh",
    "read_plan_sm90.cuh": HERE / "read_plan_stand_in.cuh",
}
FACE = """
using namespace kernelwright;
extern "C" int run_product(const void* p) { return matmul::forward(*static_cast<const matmul::Forward*>(p)); }
extern "C" int product_bytes(const void* p) {
    return static_cast<int>(matmul::forward_workspace(*static_cast<const matmul::Forward*>(p)));
}
"""
EXACT = 2.0**-20
"""hi * hi alone is 2^-12 off, without one of the cross terms 2^-13."""
SIZES = [
    (1, 1, 1, 1), (2, 3, 130, 67), (1, 1, 1, 256), (3, 129, 7, 320), (1, 260, 140, 100), (1, 16, 24, 4100),
    (2, 9, 130, 1500),
]  # fmt: skip
"""Batch, rows, columns, depth: from 32 on the tensor cores are taken; beyond 1024 operands are read twice."""
STREAMED = {
    "kLaunch = 4.0": "kLaunch = 4e9",
    "plan.sms = sms;": "plan.sms = 5;",
}
"""So that stages are shared out: joining with a kernel takes too long, few SMs have several tiles each."""
EDITED = {
    "streamed": STREAMED,
    "whole": {"kReadFromL2 = 40 << 20;": "kReadFromL2 = 0;"},
    "apart": {"kLookedAtApart = 24 << 20;": "kLookedAtApart = 0;"},
    "never looked at": {
        "    int found = -1;": "    p.out.y[0] = NAN;\n    return;\n    int found = -1;",
    },
    "never anew": {"if (!lost) return;": "if (lost) p.out.y[0] = NAN;\n    return;"},
}
"""`whole`: b is split with one read, however small. `apart`: it is looked at by itself. `never looked at` and
`never anew`: the first sum is NaN where tiles are looked at, and where one would be computed anew."""
SHARED_OUT = [(1, 1, 1, 600), (2, 130, 9, 700), (1, 260, 131, 600), (4, 260, 9, 140)]
EVERY = pytest.mark.parametrize("precision", list(PRECISIONS))
LAYOUTS = ("plain", "transposed", "strided", "shared")


@cache
def built(precision: str = "fp32x3") -> Device:
    """With both paths; for ieee the portable one alone, whose accesses are checked; `streamed` and `whole`:
    fp32x3 as EDITED."""
    portable = precision == "ieee"
    text = one_text([str(SOURCE)], STAND_IN)
    for old, new in EDITED.get(precision, {}).items():
        assert old in text
        text = text.replace(old, new)
    source = build_runtime().parent / f"matmul_{precision}.cu"
    selected = "#define KW_PORTABLE_ONLY\n" if portable else "#define __CUDA_ARCH_FEAT_SM90_ALL 1\n"
    source.write_text(selected + text + FACE)
    return Device(source, checked=portable)


def draw(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def laid(values: Array, layout: str) -> tuple[Array, tuple[int, int, int]]:
    """The matrices in device memory, and their steps of elements; `shared` keeps the first of them alone."""
    batch, rows, columns = values.shape
    if layout == "shared":
        values = values[:1]
    if layout == "transposed":
        room = built().empty((batch, columns, rows))
        room[...] = values.transpose(0, 2, 1)
        return room, (rows * columns, 1, rows)
    wide = columns * (2 if layout == "strided" else 1)
    room = built().empty((len(values), rows, wide))
    room[...] = np.nan
    room[:, :, :: wide // columns] = values
    return room, (0 if layout == "shared" else rows * wide, wide, wide // columns)


def product(
    a: Array, b: Array, layouts: tuple[str, str] = ("plain", "plain"), precision: str = "fp32x3",
    added: tuple[float, Array | None, float] = (1.0, None, 1.0),
    parts: tuple[str, str, str] = ("whole", "whole", "whole"),
) -> Array:  # fmt: skip
    batch, m, k = a.shape
    n = b.shape[2]
    device = built(precision)
    number = PRECISIONS["fp32x3" if precision in EDITED else precision]
    y = device.empty((batch, m, n))
    y[...] = np.nan
    (of_a, a_steps), (of_b, b_steps) = laid(a, layouts[0]), laid(b, layouts[1])
    alpha, c, beta = added
    of_c, c_steps = (None, (0, 0, 0)) if c is None else laid(c, "plain" if len(c) > 1 else "shared")
    steps = (*a_steps, *b_steps, *c_steps, number, *(PARTS[part] for part in parts), alpha, beta, 0, 0)

    def packed(workspace: Array | None) -> ctypes.Array[ctypes.c_char]:
        tensors = [0 if v is None else v.ctypes.data for v in (of_a, of_b, of_c, y, workspace)]
        return ctypes.create_string_buffer(struct.pack(f"@{FORWARD}", *tensors, batch, m, n, k, *steps))

    device.runtime.kw_clear_findings()
    size = device.call("product_bytes", packed(None))
    assert device.call("run_product", packed(device.empty(size, "uint8") if size else None)) == 0
    assert device.findings() == []
    return y.astype("float64")


def off_by(y: Array, a: Array, b: Array) -> float:
    """The largest error, over the sum of the products' absolute values."""
    a, b = a.astype("float64"), b.astype("float64")
    return float((np.abs(y - a @ b) / (np.abs(a) @ np.abs(b))).max())


@EVERY
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_any_sizes(size: tuple[int, int, int, int], precision: str) -> None:
    batch, m, n, k = size
    a, b = draw(1, batch, m, k), draw(2, batch, k, n)
    assert off_by(product(a, b, precision=precision), a, b) < EXACT


@pytest.mark.parametrize(
    "size", [(1, 1, 1, 600), (2, 130, 9, 700), (1, 260, 131, 600), (4, 260, 9, 140)], ids=str
)
def test_the_last_to_end_of_a_tile_adds_its_parts_up(size: tuple[int, int, int, int]) -> None:
    batch, m, n, k = size
    a, b, c = draw(1, batch, m, k), draw(2, batch, k, n), draw(3, 1, m, n)
    y = product(a, b, precision="streamed", added=(1.0, c, 1.0))
    wanted = a.astype("float64") @ b + c
    assert float((np.abs(y - wanted) / (np.abs(a) @ np.abs(b) + np.abs(c))).max()) < EXACT
    np.testing.assert_array_equal(y, product(a, b, precision="streamed", added=(1.0, c, 1.0)))


@EVERY
@pytest.mark.parametrize("of_a", LAYOUTS)
@pytest.mark.parametrize("of_b", LAYOUTS)
def test_any_layout(of_a: str, of_b: str, precision: str) -> None:
    a, b = draw(1, 2, 37, 76), draw(2, 2, 76, 52)
    a = np.stack([a[0]] * 2) if of_a == "shared" else a
    b = np.stack([b[0]] * 2) if of_b == "shared" else b
    assert off_by(product(a, b, (of_a, of_b), precision), a, b) < EXACT


@pytest.mark.parametrize("layout", ["plain", "transposed", "strided"])
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("size", [(2, 5, 140, 70), (1, 7, 300, 1000)], ids=str)
@pytest.mark.parametrize("way", ["whole", "apart"])
def test_however_b_is_read_the_same_is_made(
    way: str, size: tuple[int, int, int, int], part: str, layout: str
) -> None:
    batch, m, n, k = size
    a, b, parts = draw(1, batch, m, k), draw(2, batch, k, n), ("whole", part, "whole")
    y = product(a, b, ("plain", layout), way, parts=parts)
    np.testing.assert_array_equal(y, product(a, b, ("plain", layout), parts=parts))


@EVERY
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("depth", [40, 2100], ids=["whole", "in parts"])
def test_something_is_added(batch: int, depth: int, precision: str) -> None:
    a, b, c = draw(1, 2, 5, depth), draw(2, 2, depth, 6), draw(3, batch, 5, 6)
    y = product(a, b, precision=precision, added=(-0.5, c, 3.0))
    wanted = -0.5 * (a.astype("float64") @ b) + 3.0 * c
    np.testing.assert_allclose(y, wanted, rtol=2e-5, atol=2e-5)


SIDES: dict[str, Callable[[Array], Array]] = {"whole": np.array, "lower": np.tril, "upper": np.triu}


@pytest.mark.parametrize("precision", ["fp32x3", "ieee"])
@pytest.mark.parametrize("layout", ["plain", "transposed"])
@pytest.mark.parametrize("of_a", PARTS)
@pytest.mark.parametrize("of_b", PARTS)
def test_triangular_operands_are_read_on_their_side_alone(
    of_a: str, of_b: str, layout: str, precision: str
) -> None:
    a, b = draw(1, 1, 140, 200), draw(2, 1, 200, 300)
    wanted_a, wanted_b = SIDES[of_a](a), SIDES[of_b](b)
    a[wanted_a == 0], b[wanted_b == 0] = 1e30, np.nan
    y = product(a, b, (layout, layout), precision, parts=(of_a, of_b, "whole"))
    terms = np.abs(wanted_a).astype("float64") @ np.abs(wanted_b)
    assert (np.abs(y - wanted_a.astype("float64") @ wanted_b) <= EXACT * terms).all()


@EVERY
@pytest.mark.parametrize("of_y", ["lower", "upper"])
@pytest.mark.parametrize("size", [(2, 140, 300, 70), (1, 300, 140, 600)], ids=str)
def test_one_side_of_the_result_is_computed(
    size: tuple[int, int, int, int], of_y: str, precision: str
) -> None:
    """The other one is 0, whatever would have come there."""
    batch, m, n, k = size
    a, b, c = draw(1, batch, m, k), draw(2, batch, k, n), draw(3, 1, m, n)
    b[0, 5, 20], b[0, 7, n - 20], c[0, 130, 2], c[0, 2, 130] = np.inf, np.nan, np.nan, np.nan
    y = product(a, b, ("plain", "plain"), precision, (0.5, c, 2.0), ("whole", "whole", of_y))
    with np.errstate(invalid="ignore"):
        wanted = SIDES[of_y](0.5 * (a.astype("float64") @ b) + 2.0 * c)
        terms = SIDES[of_y](np.abs(a).astype("float64") @ np.abs(b) + 2 * np.abs(c))
    there = np.isfinite(wanted)
    assert (np.abs(y[there] - wanted[there]) <= EXACT * terms[there]).all()
    assert not np.isfinite(y[~there]).any()


@pytest.mark.parametrize("layout", ["plain", "transposed"])
def test_rows_of_any_scale(layout: str) -> None:
    """From denormal to near the largest float, also where a product of scales is no float."""
    a, b = draw(1, 1, 128, 256), draw(2, 1, 256, 256)
    a *= (10.0 ** np.linspace(-30, 20, 128)).astype("float32")[:, None]
    b *= (10.0 ** np.linspace(-6, 6, 256)).astype("float32")
    assert off_by(product(a, b, (layout, layout)), a, b) < EXACT


@EVERY
@pytest.mark.parametrize("layout", ["plain", "transposed"])
def test_infinities_and_nan_stand_where_floats_are(layout: str, precision: str) -> None:
    a, b = draw(7, 1, 130, 256), draw(8, 1, 256, 130)
    b[0, 7, 4] = 1.0  # of which nothing is left for lo
    b[0, 7, 5] = 0.0
    a[0, 3], a[0, 5, 7], a[0, 6, 7:9], a[0, 9, 11] = 0, np.inf, (np.inf, -np.inf), np.nan
    b[0, 7, 8], b[0, 20, 9], b[0, 3, 10] = np.inf, -np.inf, np.nan
    y = product(a, b, (layout, layout), precision)
    wanted = torch.matmul(torch.tensor(a.copy()), torch.tensor(b.copy())).numpy()
    np.testing.assert_array_equal(np.isnan(y), np.isnan(wanted))
    np.testing.assert_array_equal(y[np.isinf(wanted)], wanted[np.isinf(wanted)])
    assert np.isfinite(y[np.isfinite(wanted)]).all()
