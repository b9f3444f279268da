"""GroupNorm's portable path, checked by the emulator, against torch in float64."""

import numpy as np
import pytest
import torch
from device_library import Array
from kernels.device.group_norm_library import ACTIVATIONS, DTYPES, Call, Options, Sizes, read, stored

SIZES = [
    Sizes(2, 6, 7, 3),  # rows of 14: most packs cut
    Sizes(3, 32, 1, 8),  # two dimensions
    Sizes(2, 8, 64, 8),  # a channel per group
    Sizes(1, 16, 225, 2),  # rows begin anywhere
    Sizes(2, 4, 1024, 1),  # one group
    Sizes(40, 32, 7, 1),  # more planes of a group than threads of a block
    Sizes(2, 8, 301, 2),
]
LONG = [Sizes(1, 6, 12_001, 2), Sizes(1, 4, 40_000, 1)]
EPSILON = {"float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3}


class Case:
    """Inputs as the kernels see them, rounded to their dtype, and torch's results in float64."""

    def __init__(self, sizes: Sizes, options: Options, residual: bool = False, affine: str = "wb") -> None:
        random = np.random.default_rng(sum(sizes))
        n, channels, spatial, _ = sizes
        parameters = "float32" if options.float_parameters else options.dtype

        def draw(dtype: str, *shape: int) -> Array:
            return read(stored(random.standard_normal(shape), dtype), dtype)

        self.sizes, self.options = sizes, options
        self.x, self.dy = draw(options.dtype, n, channels, spatial), draw(options.dtype, n, channels, spatial)
        self.residual = draw(options.dtype, n, channels, spatial) if residual else None
        self.weight = draw(parameters, channels) if "w" in affine else None
        self.bias = draw(parameters, channels) if "b" in affine else None

    def expected(self) -> tuple[Array, list[Array | None]]:
        """y, and the gradients of x, residual, weight and bias."""
        tensors = [
            None if values is None else torch.tensor(values, requires_grad=True)
            for values in (self.x, self.residual, self.weight, self.bias)
        ]
        x, residual, weight, bias = tensors
        assert x is not None
        ones = torch.ones(
            self.sizes.channels, dtype=torch.float64
        )  # torch's backward fails with a bias alone
        z = torch.nn.functional.group_norm(
            x, self.sizes.groups, ones if weight is None else weight, bias, 1e-5
        )
        z = z if residual is None else z + residual
        y = z if self.options.act == "none" else getattr(torch.nn.functional, self.options.act)(z)
        y.backward(torch.tensor(self.dy))
        gradients = [None if t is None or t.grad is None else t.grad.numpy() for t in tensors]
        return y.detach().numpy(), gradients

    def check(self, offset: int = 0) -> None:
        call = Call(self.sizes, self.options, offset)
        y, mean, rstd = call.forward(self.x, self.residual, self.weight, self.bias)
        wanted, gradients = self.expected()
        close(y, wanted, self.options.dtype)
        rows = self.x.reshape(self.sizes.n, self.sizes.groups, -1)
        np.testing.assert_allclose(mean, rows.mean(-1), atol=1e-6)
        np.testing.assert_allclose(rstd, 1 / np.sqrt(rows.var(-1) + 1e-5), rtol=1e-6)
        dx, dresidual, dweight, dbias = call.backward(
            (self.dy, self.x, self.residual), (self.weight, self.bias), (mean, rstd)
        )
        for ours, theirs in zip((dx, dresidual, dweight, dbias), gradients, strict=True):
            if theirs is not None:
                close(ours, theirs, self.options.dtype)


def close(ours: Array, theirs: Array, dtype: str) -> None:
    scale = max(1.0, np.abs(theirs).max())
    np.testing.assert_allclose(ours / scale, theirs / scale, atol=EPSILON[dtype], rtol=EPSILON[dtype])


@pytest.mark.parametrize("channels_last", [False, True], ids=["contiguous", "channels-last"])
@pytest.mark.parametrize("sizes", [*SIZES, *LONG], ids=str)
def test_sizes(sizes: Sizes, channels_last: bool) -> None:
    Case(sizes, Options(channels_last=channels_last)).check()


@pytest.mark.parametrize("channels_last", [False, True], ids=["contiguous", "channels-last"])
@pytest.mark.parametrize("act", ACTIVATIONS)
def test_activations_after_a_residual(act: str, channels_last: bool) -> None:
    Case(SIZES[3], Options(channels_last=channels_last, act=act), residual=True).check()


@pytest.mark.parametrize("float_parameters", [False, True])
@pytest.mark.parametrize("channels_last", [False, True], ids=["contiguous", "channels-last"])
@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_sixteen_bit_storage(dtype: str, channels_last: bool, float_parameters: bool) -> None:
    for sizes in (SIZES[0], SIZES[3], Sizes(2, 16, 24, 4)):
        Case(sizes, Options(dtype, channels_last, "silu", float_parameters), residual=True).check()


@pytest.mark.parametrize("affine", ["", "w", "b"])
@pytest.mark.parametrize("channels_last", [False, True], ids=["contiguous", "channels-last"])
def test_without_some_parameters(affine: str, channels_last: bool) -> None:
    Case(SIZES[0], Options(channels_last=channels_last, act="silu"), affine=affine).check()


@pytest.mark.parametrize("channels_last", [False, True], ids=["contiguous", "channels-last"])
@pytest.mark.parametrize("sizes", [SIZES[3], SIZES[4], LONG[0]], ids=str)
def test_tensors_that_begin_anywhere(sizes: Sizes, channels_last: bool) -> None:
    Case(sizes, Options(channels_last=channels_last, act="relu"), residual=True).check(offset=3)


@pytest.mark.parametrize("channels_last", [False, True], ids=["contiguous", "channels-last"])
@pytest.mark.parametrize("sizes", [SIZES[3], LONG[0]], ids=str)
def test_an_offset_and_an_outlier_cost_no_digits(sizes: Sizes, channels_last: bool) -> None:
    case = Case(sizes, Options(channels_last=channels_last))
    case.x = stored(case.x + 1e3, "float32").astype("float64")
    case.x[0, 0, 0] = -1e6
    y, mean, rstd = Call(sizes, case.options).forward(case.x, None, case.weight, case.bias)
    wanted, _ = case.expected()
    np.testing.assert_allclose(y, wanted, rtol=2e-6, atol=2e-6)
    rows = case.x.reshape(sizes.n, sizes.groups, -1)
    np.testing.assert_allclose(rstd, 1 / np.sqrt(rows.var(-1) + 1e-5), rtol=1e-6)
    assert (np.abs(mean - rows.mean(-1)) < 1e-7 * (rows.std(-1) + np.abs(rows.mean(-1)))).all()


@pytest.mark.parametrize("channels_last", [False, True], ids=["contiguous", "channels-last"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_not_a_number_and_infinity_stay_in_their_group(value: float, channels_last: bool) -> None:
    case = Case(SIZES[0], Options(channels_last=channels_last))
    case.x[1, 2, 3] = value
    y, _, rstd = Call(case.sizes, case.options).forward(case.x, None, case.weight, case.bias)
    wanted, _ = case.expected()
    np.testing.assert_array_equal(np.isnan(y), np.isnan(wanted))
    assert np.isnan(rstd[1, 1])
    np.testing.assert_allclose(y, wanted, atol=2e-6)


def test_a_call_that_it_cannot_take_is_refused() -> None:
    call = Call(Sizes(2, 6, 7, 4), Options())
    with pytest.raises(AssertionError):
        call.forward(np.zeros((2, 6, 7)), None, None, None)
