"""matmul_fp32x3 where small values count beside large ones that meet zeros, on the emulator."""

from collections.abc import Callable

import numpy as np
import pytest
from device_library import Array
from kernels.device.test_matmul_fp32x3 import draw, product


def masked(seed: int, m: int, n: int, k: int, step: int, size: float) -> tuple[Array, Array]:
    """`step` values in a row of every eight of a are large, and meet zeros of b."""
    a, b = draw(seed, 1, m, k), draw(seed + 1, 1, k, n)
    large = np.arange(k) % 8 < step
    a[:, :, large] *= np.float32(size)
    b[:, large] = 0
    return a, b


def float_sums(a: Array, b: Array) -> Array:
    """Of [m, k] and [k, n], in the order of the depth."""
    exact_a, exact_b = a.astype("float64"), b.astype("float64")
    sums = np.zeros((len(a), b.shape[1]), "float32")
    for i in range(a.shape[1]):
        sums = (sums + np.outer(exact_a[:, i], exact_b[i])).astype("float32")
    return sums


def rms_over_floats(y: Array, a: Array, b: Array) -> float:
    """The root mean square error of [1, m, n] over that of float sums."""
    truth = a[0].astype("float64") @ b[0].astype("float64")
    ours, theirs = (np.sqrt(np.square(of - truth).mean()) for of in (y[0], float_sums(a[0], b[0])))
    return float(ours / theirs)


@pytest.mark.parametrize("precision", ["fp32x3", "streamed", "whole"])
@pytest.mark.parametrize("layout", ["plain", "transposed"])
@pytest.mark.parametrize("turned", [False, True], ids=["in a", "in b"])
@pytest.mark.parametrize("size", [2.0**20, 2.0**40, 2.0**120], ids=str)
@pytest.mark.parametrize("depth", [40, 700])
def test_large_values_that_meet_zeros_cost_the_others_nothing(
    depth: int, size: float, turned: bool, layout: str, precision: str
) -> None:
    a, b = masked(31, 20, 140, depth, 1, size)
    if turned:
        a, b = b.transpose(0, 2, 1).copy(), a.transpose(0, 2, 1).copy()
    assert rms_over_floats(product(a, b, (layout, layout), precision), a, b) < 2


def test_where_some_large_values_meet_others_the_rest_keeps_to_the_errors_of_floats() -> None:
    """A row of a and a column of b have values where all others have zeros against the large ones."""
    a, b = masked(33, 40, 140, 320, 2, 2.0**30)
    a[0, 5], b[0, :, 7] = draw(35, 320), draw(36, 320)
    y = product(a, b)
    assert rms_over_floats(y, a, b) < 2
    assert rms_over_floats(y[:, 5:6], a[:, 5:6], b) < 2
    assert rms_over_floats(y[:, :, 128:], a, b[:, :, 128:]) < 2  # no tile of theirs has the column


def test_tiles_of_any_row_and_matrix_are_computed_anew() -> None:
    """The rows of one tile of each of two matrices alone have large values, on other scales."""
    a, b = draw(37, 2, 260, 320), draw(38, 2, 320, 140)
    b[:, :40] = 0
    a[0, 128:, :40] *= np.float32(2.0**30)
    a[1, :128, :40] *= np.float32(2.0**40)
    y = product(a, b)
    for i in range(2):
        assert rms_over_floats(y[i : i + 1], a[i : i + 1], b[i : i + 1]) < 2


ORDINARY: dict[str, Callable[[Array], Array]] = {  # of operands [..., rows, depth]
    "normal": np.array,
    "positive": np.abs,
    "rectified": lambda v: np.maximum(v, 0),
    "one of ten": lambda v: np.where(np.abs(v) > 1.65, v, 0).astype("float32"),
    "whole numbers": np.round,
    "rows of zeros": lambda v: v * (np.arange(v.shape[-2]) % 3 > 0).astype("float32")[:, None],
    "rows of any scale": lambda v: v * np.exp(2 * draw(43, v.shape[-2])).astype("float32")[:, None],
}


@pytest.mark.parametrize(
    ("of_a", "of_b"), [*((kind, "normal") for kind in ORDINARY), *(("normal", kind) for kind in ORDINARY)]
)
def test_ordinary_operands_are_not_computed_anew(of_a: str, of_b: str) -> None:
    a = ORDINARY[of_a](draw(41, 1, 40, 1100))
    b = ORDINARY[of_b](draw(42, 1, 150, 1100)).transpose(0, 2, 1)
    assert np.isfinite(product(a, b, ("plain", "transposed"), "never anew")).all()
    a[:, :, ::8] *= np.float32(2.0**20)
    b[:, ::8] = 0
    assert not np.isfinite(product(a, b, ("plain", "transposed"), "never anew")).all()


def cancelling(seed: int, m: int, n: int, k: int) -> tuple[Array, Array]:
    """[m, k] and [n, k], dense; of every two products that follow each other hardly anything is left."""
    a, b = draw(seed, m, k), draw(seed + 1, n, k)
    a[:, 1::2] = -a[:, : k // 2 * 2 : 2] * np.float32(1 + 5e-5)
    b[:, 1::2] = b[:, : k // 2 * 2 : 2]
    return a, b


@pytest.mark.parametrize("layout", ["plain", "transposed"])
@pytest.mark.parametrize("depth", [40, 700])
def test_products_that_cancel_one_after_the_other_cost_no_more_than_floats(depth: int, layout: str) -> None:
    a, b = cancelling(51, 150, 140, depth)
    a, b = a[None], b.T.copy()[None]
    assert rms_over_floats(product(a, b, (layout, layout)), a, b) < 2


@pytest.mark.parametrize("depth", [40, 700])
@pytest.mark.parametrize("precision", ["fp32x3", "fp32x4", "streamed"])
def test_sums_of_few_products_keep_to_the_errors_of_floats(depth: int, precision: str) -> None:
    a, b = (ORDINARY["one of ten"](draw(seed, 1, 140, depth)) for seed in (53, 54))
    b = b.transpose(0, 2, 1).copy()
    assert rms_over_floats(product(a, b, precision=precision), a, b) < 2


def test_rows_are_picked_as_they_are() -> None:
    """A sum of one product is that product, rounded."""
    picked = np.random.default_rng(55).integers(700, size=150)
    a, b = np.eye(700, dtype="float32")[picked][None], draw(56, 1, 700, 140)
    np.testing.assert_array_equal(product(a, b)[0], b[0, picked])


def centred(seed: int, m: int, n: int, k: int) -> tuple[Array, Array]:
    """[m, k] and [n, k]: rows that differ little, and such whose values add up to nothing."""
    a, b = 1 + np.float32(1e-3) * draw(seed, m, k), draw(seed + 1, n, k)
    return a, b - b.mean(1, keepdims=True)


def orthogonal(seed: int, m: int, n: int, k: int) -> tuple[Array, Array]:
    """[m, k] and [n, k], all at right angles."""
    both = np.linalg.qr(draw(seed, k, k))[0][: m + n]
    return both[:m], both[m:]


@pytest.mark.parametrize("drawn", [centred, orthogonal])
def test_dense_operands_whose_sums_cancel_in_the_end_are_not_computed_anew(
    drawn: Callable[[int, int, int, int], tuple[Array, Array]],
) -> None:
    a, b = drawn(57, 40, 140, 1100)
    a, b = a[None], b.T.copy()[None]
    y = product(a, b, precision="never anew")
    assert np.isfinite(y).all()
    assert rms_over_floats(y, a, b) < 2


@pytest.mark.parametrize("layout", ["plain", "transposed"])
@pytest.mark.parametrize(
    ("kind", "dense"),
    [("normal", True), ("positive", True), ("rows of any scale", True), ("rectified", False)],
)
def test_dense_operands_are_not_looked_at(kind: str, dense: bool, layout: str) -> None:
    values, normal = ORDINARY[kind](draw(44, 1, 150, 1120)), draw(45, 1, 1120, 140)
    for a, b in ((values, normal), (normal.transpose(0, 2, 1).copy(), values.transpose(0, 2, 1).copy())):
        y = product(a, b, (layout, layout), "never looked at")
        assert bool(np.isfinite(y).all()) is dense
