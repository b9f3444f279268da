"""linear_fp32x3 and its fusion where small values count beside large ones that meet zeros: the emulator."""

import numpy as np
import pytest
import torch
from device_library import Array
from kernels.device import test_matmul_small_values as matmul
from kernels.device.test_linear_fp32x3 import built, draw, placed, product, run, split

from agent.kernels.linear_fp32x3.product import FORWARD, PRECISIONS
from agent.kernels.linear_group_norm_min_bias import operator


def masked(seed: int, m: int, n: int, k: int, size: float) -> tuple[Array, Array]:
    """Every eighth value in a row of x is large, and meets a zero of the weight."""
    x, weight = draw(seed, m, k), draw(seed + 1, n, k)
    x[:, ::8] *= np.float32(size)
    weight[:, ::8] = 0
    return x, weight


def rms_over_floats(y: Array, x: Array, weight: Array) -> float:
    """The root mean square error over that of float sums."""
    return matmul.rms_over_floats(y[None], x[None], weight.T[None])


@pytest.mark.parametrize("offset", [0, 1], ids=["aligned", "unaligned"])
@pytest.mark.parametrize("turned", [False, True], ids=["in x", "in the weight"])
@pytest.mark.parametrize("size", [2.0**20, 2.0**40, 2.0**120], ids=str)
@pytest.mark.parametrize("depth", [260, 700])
def test_large_values_that_meet_zeros_cost_the_others_nothing(
    depth: int, size: float, turned: bool, offset: int
) -> None:
    x, weight = masked(31, 20, 140, depth, size)
    if turned:
        x, weight = weight, x
    assert rms_over_floats(product(x, weight, None, offset=offset), x, weight) < 2


def test_a_bias_is_added_to_what_is_computed_anew() -> None:
    x, weight = masked(31, 20, 140, 300, 2.0**40)
    bias = draw(33, 140)
    y = product(x, weight, bias)
    wanted = x.astype("float64") @ weight.astype("float64").T + bias
    np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("turned", [False, True], ids=["in x", "in the weight"])
def test_a_weight_that_was_split_before_says_whether_it_is_dense(turned: bool) -> None:
    x, weight = masked(34, 20, 140, 300, 2.0**40)
    if turned:
        x, weight = weight, x
    y = built().empty((len(x), len(weight)))
    sizes = [len(x), *weight.shape, PRECISIONS["fp32x3"]]
    run("product", FORWARD, [placed(x), placed(weight), None, split(weight), y], sizes)
    assert rms_over_floats(y, x, weight) < 2


def test_a_row_and_a_column_alone_are_found() -> None:
    """Among dense ones, a row whose large values meet the zeros of one column."""
    x, weight = draw(35, 140, 320), draw(36, 150, 320)
    x[130, :40] *= np.float32(2.0**40)
    weight[:, :40] *= np.float32(2.0**-40)
    weight[140] *= np.float32(2.0**20)
    weight[140, :40] = 0
    y = product(x, weight, None)
    assert rms_over_floats(y, x, weight) < 2
    assert rms_over_floats(y[130:131], x[130:131], weight) < 2
    assert rms_over_floats(y[:, 140:141], x, weight[140:141]) < 2


ORDINARY = {
    **matmul.ORDINARY,
    "a large value in each row": lambda v: np.where(np.arange(v.shape[1]) == 7, 100 * v, v).astype("float32"),
}


@pytest.mark.parametrize(
    ("of_x", "of_weight"),
    [*((kind, "normal") for kind in ORDINARY), *(("normal", kind) for kind in ORDINARY)],
)
def test_ordinary_operands_are_not_computed_anew(of_x: str, of_weight: str) -> None:
    x, weight = ORDINARY[of_x](draw(41, 40, 1100)), ORDINARY[of_weight](draw(42, 150, 1100))
    assert np.isfinite(product(x, weight, None, "never anew")).all()
    x[:, ::8] *= np.float32(2.0**20)
    weight[:, ::8] = 0
    assert not np.isfinite(product(x, weight, None, "never anew")).all()


def test_dense_operands_whose_sums_cancel_are_not_computed_anew() -> None:
    """Hardly any of their values is small beside the others: nothing is lost, however small sums are."""
    x, weight = 1 + np.float32(2.0**-10) * draw(44, 40, 1024), draw(45, 150, 1024)
    weight[:, 512:] = -weight[:, :512]
    y = product(x, weight, None, "never anew")
    assert np.isfinite(y).all()
    assert rms_over_floats(y, x, weight) < 2


@pytest.mark.parametrize("depth", [260, 700])
def test_products_that_cancel_one_after_the_other_cost_no_more_than_floats(depth: int) -> None:
    x, weight = matmul.cancelling(51, 150, 140, depth)
    assert rms_over_floats(product(x, weight, None), x, weight) < 2


@pytest.mark.parametrize("ready", [False, True], ids=["split here", "split before"])
@pytest.mark.parametrize("depth", [260, 700])
def test_sums_of_few_products_keep_to_the_errors_of_floats(depth: int, ready: bool) -> None:
    x, weight = (ORDINARY["one of ten"](draw(seed, 140, depth)) for seed in (53, 54))
    y = built().empty((len(x), len(weight)))
    sizes = [len(x), *weight.shape, PRECISIONS["fp32x3"]]
    packed = split(weight) if ready else None
    run("product", FORWARD, [placed(x), placed(weight), None, packed, y], sizes)
    assert rms_over_floats(y, x, weight) < 2


def test_operands_whose_sums_cancel_in_the_end_are_not_computed_anew() -> None:
    x, weight = matmul.centred(57, 40, 140, 1100)
    y = product(x, weight, None, "never anew")
    assert np.isfinite(y).all()
    assert rms_over_floats(y, x, weight) < 2


@pytest.mark.parametrize("turned", [False, True], ids=["in x", "in the weight"])
@pytest.mark.parametrize("width", [4, 8, 16, 32, 64, 128])
def test_the_smallest_value_after_the_norm_keeps_to_the_errors_of_floats(width: int, turned: bool) -> None:
    m, k, n = (140, 300, 2 * width if width > 64 else 264 // width * width)
    x, weight = masked(46, *((n, m) if turned else (m, n)), k, 2.0**40)
    if turned:
        x, weight = weight, x
    linear_bias, gamma, beta, bias = draw(48, n), draw(49, n), draw(50, n), draw(51, 3)
    out = built().empty((3, m))
    tensors = [placed(v) for v in (x, weight, linear_bias, gamma, beta, bias)]
    sizes = [m, n, k, n // width, 3, PRECISIONS["fp32x3"]]
    run("least", operator.FORWARD, [*tensors, None, None, out], [*sizes, 1e-5])

    def least(y: Array) -> Array:
        norm, level = torch.tensor(gamma.astype(y.dtype)), torch.tensor(beta.astype(y.dtype))
        z = torch.nn.functional.group_norm(torch.tensor(y + linear_bias), n // width, norm, level, 1e-5)
        found: Array = (z.min(1).values + torch.tensor(bias)[:, None]).numpy()
        return found

    wanted = least(x.astype("float64") @ weight.astype("float64").T)
    ours, theirs = (
        np.sqrt(np.square(of - wanted).mean()) for of in (out, least(matmul.float_sums(x, weight.T)))
    )
    assert ours < 2 * theirs
