"""matmul_fp32x3 of operands of mostly zeros: a known to be so, and tiles computed anew; on the emulator."""

import ctypes
import struct

import numpy as np
import pytest
from device_library import Array
from kernels.device.test_matmul_fp32x3 import LAYOUTS, built, draw, laid, off_by, product
from kernels.device.test_matmul_small_values import float_sums, rms_over_floats

from agent.kernels.matmul_fp32x3.product import FORWARD, SPARSE

ROUNDING = 2.0**-24
"""Of a float sum, at the most, for each of its products."""


def sparse_product(
    a: Array, b: Array, layouts: tuple[str, str] = ("plain", "plain"), known: float = 0.0
) -> Array:
    """Of [batch, m, k] and [batch, k, n]."""
    (batch, m, k), n, device = a.shape, b.shape[2], built()
    y, told = device.empty((batch, m, n)), device.empty((1,))
    y[...], told[...] = np.nan, known
    (of_a, a_steps), (of_b, b_steps) = laid(a, layouts[0]), laid(b, layouts[1])
    pointers = (of_a.ctypes.data, of_b.ctypes.data, told.ctypes.data, y.ctypes.data, 0)
    steps = (*a_steps, *b_steps, 0, 0, 0, SPARSE, 0, 0, 0, 1.0, 1.0, 0, 0)
    packed = ctypes.create_string_buffer(struct.pack(f"@{FORWARD}", *pointers, batch, m, n, k, *steps))
    device.runtime.kw_clear_findings()
    assert device.call("product_bytes", packed) == 0
    assert device.call("run_product", packed) == 0
    assert device.findings() == []
    exact: Array = y.astype("float64")
    return exact


def thinned(seed: int, share: float, *shape: int) -> Array:
    """Normal values, of which so many are left."""
    kept = np.random.default_rng(seed + 1).random(shape) < share
    left: Array = draw(seed, *shape) * kept.astype("float32")
    return left


def one_group_in_a_row(seed: int, m: int, k: int, width: int) -> Array:
    """[1, m, k], each row with values in one of its groups."""
    group = np.random.default_rng(seed).integers(k // width, size=m)
    left: Array = draw(seed, 1, m, k) * (np.arange(k) // width == group[:, None]).astype("float32")
    return left


@pytest.mark.parametrize("of_a", LAYOUTS)
@pytest.mark.parametrize("of_b", LAYOUTS)
@pytest.mark.parametrize("size", [(2, 37, 52, 76), (1, 130, 260, 333)], ids=str)
def test_any_layout(size: tuple[int, int, int, int], of_b: str, of_a: str) -> None:
    batch, m, n, k = size
    a, b = thinned(1, 0.1, batch, m, k), draw(3, batch, k, n)
    a = np.stack([a[0]] * batch) if of_a == "shared" else a
    b = np.stack([b[0]] * batch) if of_b == "shared" else b
    y = sparse_product(a, b, (of_a, of_b))
    assert np.sqrt(np.square(y - a.astype("float64") @ b).mean()) < 2e-7 * np.sqrt(np.square(y).mean())


@pytest.mark.parametrize("share", [0.0, 0.002, 0.05, 0.2, 0.5, 1.0])
@pytest.mark.parametrize("layout", ["plain", "transposed"])
def test_however_many_values_there_are(layout: str, share: float) -> None:
    a, b = thinned(5, share, 1, 140, 700), draw(7, 1, 700, 150)
    y = sparse_product(a, b, (layout, layout))
    truth = a[0].astype("float64") @ b[0]
    ours, theirs = (np.sqrt(np.square(of - truth).mean()) for of in (y[0], float_sums(a[0], b[0])))
    assert ours <= 1.25 * theirs  # sums of one or two products are rounded once more


@pytest.mark.parametrize("layout", ["plain", "transposed"])
@pytest.mark.parametrize("tiles", [1, 2, 5])
def test_tiles_of_the_same_rows_know_where_the_values_are(tiles: int, layout: str) -> None:
    """Two blocks have them, with rows of more than one strip."""
    a, b = one_group_in_a_row(11, 300, 1000, 8), draw(12, 1, 1000, 128 * tiles - 3)
    y = sparse_product(a, b, (layout, layout))
    assert off_by(y, a, b) <= 8 * ROUNDING


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_zeros_meet_what_is_not_finite_where_that_is_known(value: float) -> None:
    a, b = one_group_in_a_row(13, 40, 320, 8), draw(14, 1, 320, 140)
    b[0, 7, 20] = value
    y = sparse_product(a, b, known=value)
    with np.errstate(invalid="ignore"):
        wanted = a[0].astype("float64") @ b[0]
    np.testing.assert_array_equal(np.isnan(y[0]), np.isnan(wanted))
    assert not np.isfinite(y[0, :, 20]).any()
    there = np.isfinite(b[0]).all(0)
    assert off_by(y[:, :, there], a, b[:, :, there]) <= 8 * ROUNDING


@pytest.mark.parametrize("layout", ["plain", "transposed"])
@pytest.mark.parametrize("of_zeros", ["rows", "depths", "both"])
def test_tiles_computed_anew_pass_over_zeros(of_zeros: str, layout: str) -> None:
    """Large values meet zeros, in rows whose other values are few."""
    a, b = draw(31, 1, 150, 700), draw(32, 1, 700, 300)
    a[:, :, ::8] *= np.float32(2.0**20)
    b[:, ::8] = 0
    if of_zeros != "depths":
        a[:, :, 1:] *= (np.random.default_rng(33).random((1, 150, 699)) < 0.1).astype("float32")
    if of_zeros != "rows":
        a[:, :, 64:640] = 0
    y = product(a, b, (layout, layout))
    assert rms_over_floats(y, a, b) < 2


@pytest.mark.parametrize("value", [np.inf, np.nan])
@pytest.mark.parametrize("depth", [320, 700])
def test_an_infinity_beside_what_is_computed_anew_stands_where_floats_are(depth: int, value: float) -> None:
    a, b = draw(35, 1, 40, depth), draw(36, 1, depth, 140)
    a[:, :, ::8] *= np.float32(2.0**20)
    b[:, ::8] = 0
    a[:, :, 64:] = 0
    b[0, 100, 7] = value  # where a has zeros alone
    y = product(a, b)
    assert not np.isfinite(y[0, :, 7]).any()
    assert np.isfinite(np.delete(y[0], 7, axis=1)).all()
