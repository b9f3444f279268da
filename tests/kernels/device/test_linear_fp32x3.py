"""linear_fp32x3 on the emulator: both paths, that of the tensor cores with its instructions replaced."""

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

from agent.kernels.linear_fp32x3.product import FORWARD, PRECISIONS, SPLIT
from agent.kernels.linear_group_norm_min_bias import operator

HERE = Path(__file__).parent
SOURCE = HERE.parents[2] / "agent" / "kernels" / "linear_group_norm_min_bias" / "csrc" / "launch.cuh"
STAND_IN = {
    "bulk_sm90.cuh": HERE / "bulk_stand_in.cuh",
    "matrix_sm90.cuh": HERE / "matrix_stand_in.cuh",
}
FACE = """
using namespace kernelwright;
extern "C" int run_product(const void* p) { return linear::forward(*static_cast<const linear::Forward*>(p)); }
extern "C" int product_bytes(const void* p) {
    return static_cast<int>(linear::forward_workspace(*static_cast<const linear::Forward*>(p)));
}
extern "C" int run_split(const void* p) { return linear::split(*static_cast<const linear::Split*>(p)); }
extern "C" int split_bytes(const void* p) {
    return static_cast<int>(linear::packed_bytes(*static_cast<const linear::Split*>(p)));
}
using Least = linear_group_norm_min_bias::Forward;
extern "C" int run_least(const void* p) {
    return linear_group_norm_min_bias::forward(*static_cast<const Least*>(p));
}
extern "C" int least_bytes(const void* p) {
    return static_cast<int>(linear_group_norm_min_bias::forward_workspace(*static_cast<const Least*>(p)));
}
"""
EXACT = 2.0**-20
"""hi * hi alone is 2^-12 off, without one of the cross terms 2^-13."""
SIZES = [(1, 1, 1), (3, 130, 67), (1, 1, 256), (3, 130, 267), (129, 7, 320), (70, 264, 640), (1100, 140, 256)]
"""From a depth of 256 on fp32x3 takes the tensor cores."""
STORED = "        matmul::store_tile(out, sums, p.m"
EDITED = {"never anew": {STORED: f"        y[0] = NAN;\n        if (p.m < 0) {STORED.strip()}"}}
"""The first of y is NaN where a tile would be computed anew."""
BOTH = pytest.mark.parametrize("precision", list(PRECISIONS))


@cache
def built(precision: str = "fp32x3") -> Device:
    """With both paths; for ieee the portable one alone, whose accesses are checked. Others are EDITED."""
    portable = precision == "ieee"
    text = one_text([str(SOURCE)], STAND_IN)
    for old, new in EDITED.get(precision, {}).items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    source = build_runtime().parent / f"linear_{precision}.cu"
    selected = "#define KW_PORTABLE_ONLY\n" if portable else "#define __CUDA_ARCH_FEAT_SM90_ALL 1\n"
    source.write_text(selected + text + FACE)
    return Device(source, checked=portable)


def packed(fields: str, *values: Array | float | None) -> ctypes.Array[ctypes.c_char]:
    plain = [v.ctypes.data if isinstance(v, np.ndarray) else 0 if v is None else v for v in values]
    return ctypes.create_string_buffer(struct.pack(f"@{fields}", *plain))


def run(
    name: str, fields: str, before: list[Array | None], after: list[float], precision: str = "fp32x3"
) -> None:
    """One call on a workspace of the size that it asks for."""
    device = built(precision)
    device.runtime.kw_clear_findings()
    size = device.call(f"{name}_bytes", packed(fields, *before, None, *after, 0, 0))
    workspace = device.empty(size, "uint8") if size else None
    assert device.call(f"run_{name}", packed(fields, *before, workspace, *after, 0, 0)) == 0
    assert device.findings() == []


def placed(values: Array | None, offset: int = 0) -> Array | None:
    """In device memory, `offset` elements past where four are loaded at once."""
    if values is None:
        return None
    room = built().empty(values.size + offset)[offset:].reshape(values.shape)
    room[...] = values
    return room


def split(weight: Array) -> Array:
    """As `prepare_weight` does."""
    device, sizes = built(), (*weight.shape, 0, 0)
    values = placed(weight)
    size = device.call("split_bytes", packed(SPLIT, values, None, *sizes))
    assert size > 0, "the emulated device counts as one with the tensor cores of sm_90"
    made = device.empty(size, "uint8")
    assert device.call("run_split", packed(SPLIT, values, made, *sizes)) == 0
    return made


def product(x: Array, weight: Array, bias: Array | None, precision: str = "fp32x3", offset: int = 0) -> Array:
    y = built().empty((len(x), len(weight)))
    y[...] = np.nan
    tensors = [placed(x, offset), placed(weight, offset), placed(bias, offset), None, y]
    number = PRECISIONS["fp32x3" if precision in EDITED else precision]
    run("product", FORWARD, tensors, [len(x), *weight.shape, number], precision)
    return y.astype("float64")


def draw(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def off_by(y: Array, x: Array, weight: Array, bias: Array | float) -> float:
    """The largest error, over the sum of the products' absolute values."""
    x, weight = x.astype("float64"), weight.astype("float64")
    return float((np.abs(y - (x @ weight.T + bias)) / (np.abs(x) @ np.abs(weight).T)).max())


@BOTH
@pytest.mark.parametrize("offset", [0, 1], ids=["aligned", "unaligned"])
@pytest.mark.parametrize(("m", "n", "k"), SIZES, ids=str)
def test_any_sizes(m: int, n: int, k: int, offset: int, precision: str) -> None:
    x, weight, bias = draw(1, m, k), draw(2, n, k), draw(3, n)
    assert off_by(product(x, weight, bias, precision, offset), x, weight, bias) < EXACT
    assert off_by(product(x, weight, None, precision, offset), x, weight, 0.0) < EXACT


def test_rows_of_any_scale() -> None:
    """From denormal to near the largest float, also where a product of scales is no float."""
    x, weight = draw(1, 128, 256), draw(2, 256, 256)
    x *= (10.0 ** np.linspace(-30, 20, 128)).astype("float32")[:, None]
    weight *= (10.0 ** np.linspace(-6, 6, 256)).astype("float32")[:, None]
    assert off_by(product(x, weight, None), x, weight, 0.0) < EXACT


def test_denormal_rows_meet_large_ones() -> None:
    x, weight = draw(4, 4, 256), draw(5, 4, 256)
    x[:2] *= np.float32(1e-30)
    x[:2] *= np.float32(1e-11)
    x[2:] *= np.float32(1e36)
    weight[:2] *= np.float32(1e36)
    weight[2:] *= np.float32(1e-36)
    wanted = x.astype("float64") @ weight.astype("float64").T
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(product(x, weight, None), wanted.astype("float32"), rtol=1e-5, atol=1e-44)


def test_a_sum_of_zero_is_zero_whatever_the_scales() -> None:
    x, weight = np.zeros((2, 256), "float32"), np.zeros((2, 256), "float32")
    x[0, 0], weight[0, 1] = 3e38, 3e38
    assert (product(x, weight, None) == 0).all()


def one_sided(seed: int, *shape: int) -> Array:
    """Values of both signs, of which fp16 is as far off as it can be and always to the same side."""
    drawn = np.random.default_rng(seed)
    further = drawn.random(shape) * 2.0**-14
    above, below = 1 + 2.0**-11 - further, 1 + 2.0**-11 + further + 2.0**-20
    return np.where(drawn.random(shape) < 0.5, above, -below).astype("float32")


def halfway(seed: int, *shape: int) -> Array:
    """Values of both signs, of which two fp16 leave half a digit of a float, always to the same side."""
    drawn = np.random.default_rng(seed)
    digits = 2048 + 4 * drawn.integers(0, 400, shape)
    above, below = 1 + (digits + 1) * 2.0**-23, 1 + (digits + 3) * 2.0**-23
    return np.where(drawn.random(shape) < 0.5, above, -below).astype("float32")


def near_one(seed: int, *shape: int) -> Array:
    """Two fp16 hold each value."""
    return (1 + 2.0**-13 * np.random.default_rng(seed).random(shape)).astype("float32")


@pytest.mark.parametrize("depth", [256, 1024])
@pytest.mark.parametrize(
    ("of_x", "of_weight"), [(one_sided, one_sided), (halfway, near_one), (near_one, halfway)]
)
def test_what_two_halves_leave_does_not_add_up(
    of_x: Callable[..., Array], of_weight: Callable[..., Array], depth: int
) -> None:
    """Against operands made for it: the error is below twice that of float sums in the order of the depth."""
    x, weight = of_x(21, 64, depth), of_weight(22, 64, depth)
    exact_x, exact_weight = x.astype("float64"), weight.astype("float64")
    sums = np.zeros((64, 64), "float32")
    for i in range(depth):
        sums = (sums + np.outer(exact_x[:, i], exact_weight[:, i])).astype("float32")
    truth = exact_x @ exact_weight.T
    ours, theirs = (np.sqrt(np.square(y - truth).mean()) for y in (product(x, weight, None), sums))
    assert ours < 2 * theirs


@BOTH
def test_infinities_and_nan_stand_where_floats_are(precision: str) -> None:
    x, weight = draw(7, 130, 256), draw(8, 130, 256)
    weight[4, 7] = 1.0  # of which nothing is left for lo
    weight[5, 7] = 0.0
    x[3], x[5, 7], x[6, 7:9], x[9, 11] = 0, np.inf, (np.inf, -np.inf), np.nan
    weight[8, 7], weight[9, 20], weight[10, 3] = np.inf, -np.inf, np.nan
    y = product(x, weight, None, precision)
    wanted = torch.nn.functional.linear(torch.tensor(x.copy()), torch.tensor(weight.copy())).numpy()
    np.testing.assert_array_equal(np.isnan(y), np.isnan(wanted))
    np.testing.assert_array_equal(y[np.isinf(wanted)], wanted[np.isinf(wanted)])
    assert np.isfinite(y[np.isfinite(wanted)]).all()


def test_a_weight_that_was_split_before_gives_the_same() -> None:
    x, weight, bias = draw(9, 5, 300), draw(10, 9, 300), draw(11, 9)
    y = built().empty((5, 9))
    tensors = [placed(x), placed(weight), placed(bias), split(weight), y]
    run("product", FORWARD, tensors, [5, 9, 300, PRECISIONS["fp32x3"]])
    np.testing.assert_array_equal(y, product(x, weight, bias))


@BOTH
@pytest.mark.parametrize("width", [1, 8, 16, 64, 128, 132])
def test_the_smallest_value_after_the_norm(width: int, precision: str) -> None:
    m, k, n = 130, 270, 2 * width if width > 64 else 264 // width * width
    x, weight, linear_bias = draw(12, m, k), draw(13, n, k), draw(14, n)
    gamma, beta, bias = draw(15, n), draw(16, n), draw(17, 5)
    x[17, 3] = np.nan
    out = built().empty((5, m))
    tensors = [placed(v) for v in (x, weight, linear_bias, gamma, beta, bias)]
    sizes = [m, n, k, n // width, 5, PRECISIONS[precision]]
    run("least", operator.FORWARD, [*tensors, None, None, out], [*sizes, 1e-5], precision)
    x64, weight64, *others = (
        torch.tensor(v.astype("float64")) for v in (x, weight, linear_bias, gamma, beta, bias)
    )
    y = torch.nn.functional.linear(x64, weight64, others[0])
    z = torch.nn.functional.group_norm(y, n // width, others[1], others[2], 1e-5)
    wanted = z.min(1).values + others[3][:, None]
    np.testing.assert_allclose(out, wanted.numpy(), rtol=4e-6, atol=4e-6)


def test_the_norm_and_the_minimum_need_no_parameters() -> None:
    x, weight, bias, out = draw(18, 3, 260), draw(19, 32, 260), draw(20, 2), built().empty((2, 3))
    tensors = [placed(x), placed(weight), None, None, None, placed(bias), None, None, out]
    run("least", operator.FORWARD, tensors, [3, 32, 260, 4, 2, PRECISIONS["fp32x3"], 1e-5])
    y = torch.tensor(x.astype("float64") @ weight.astype("float64").T)
    wanted = torch.nn.functional.group_norm(y, 4).min(1).values + torch.tensor(bias)[:, None]
    np.testing.assert_allclose(out, wanted.numpy(), rtol=4e-6, atol=4e-6)


@pytest.mark.parametrize("width", [4, 16])
def test_the_norm_of_an_activation_that_is_known(width: int) -> None:
    """What the product would have made is not asked for: x and the weight are NaN."""
    m, k, n = 130, 270, 64
    y, bias, out = draw(21, m, n), draw(22, 5), built().empty((5, m))
    nothing = [placed(np.full(shape, np.nan, "float32")) for shape in ((m, k), (n, k))]
    tensors = [*nothing, None, None, None, placed(bias), None, placed(y), out]
    run("least", operator.FORWARD, tensors, [m, n, k, n // width, 5, PRECISIONS["fp32x3"], 1e-5])
    z = torch.nn.functional.group_norm(torch.tensor(y.astype("float64")), n // width, eps=1e-5)
    wanted = z.min(1).values + torch.tensor(bias)[:, None]
    np.testing.assert_allclose(out, wanted.numpy(), rtol=4e-6, atol=4e-6)
