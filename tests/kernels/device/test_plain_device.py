"""The plain kernels' device code, forward and backward, checked by the emulator, against torch in float64."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from device_library import Array
from kernels.device.plain_library import NUMBERS, TOLERANCE, Kit, exact, normed, placed, run

from agent.kernels import rows
from agent.kernels.gelu import operator as gelu
from agent.kernels.logsumexp import operator as logsumexp
from agent.kernels.softmax import operator as softmax

EVERY = pytest.mark.parametrize("dtype", list(NUMBERS))
OFFSET = pytest.mark.parametrize("offset", [0, 1], ids=["aligned", "unaligned"])
F = torch.nn.functional
ROWS = (
    (70, 33), (9, 61), (17, 1_537), (3, 4_095), (70, 24), (40, 64), (33, 128), (70, 160),
    (3, 256), (520, 24), (520, 128), (520, 200), (520, 400), (520, 203), (1_100, 77),
    (515, 1_537), (2_200, 512), (1_500, 768), (300, 6_400), (2, 10_000), (520, 8_200),
    (2, 36_872), (70, 24_584),
)  # fmt: skip


@EVERY
@OFFSET
@pytest.mark.parametrize("centred", [True, False], ids=["layer_norm", "rms_norm"])
@pytest.mark.parametrize(("count", "length"), ROWS)
def test_batched_calls(centred: bool, count: int, length: int, dtype: str, offset: int) -> None:
    kit, name = Kit(dtype, offset), "layer_norm" if centred else "rms_norm"
    x, grad, weight, bias = (
        kit.draw(count, length),
        kit.draw(count, length),
        kit.draw(length),
        kit.draw(length),
    )
    y, dx, dweight, dbias = (
        kit.room(count, length),
        kit.room(count, length),
        kit.room(length),
        kit.room(length),
    )
    mean, rstd, number = kit.floats(count), kit.floats(count), NUMBERS[dtype]
    shift, of_mean = (bias, mean) if centred else (None, None)
    run(
        kit.device, f"{name}_forward", rows.FORWARD,
        x, weight, shift, y, of_mean, rstd, count, length, number, number, 1e-5, 0, 0,
    )  # fmt: skip
    truth, scale, offset_by = exact(x), exact(weight), exact(bias)
    wanted = normed(truth, scale, offset_by, centred)
    kit.close(y, wanted)
    partials = kit.floats(2 * count * length)  # no more than a row of each for each row
    run(
        kit.device, f"{name}_backward", rows.BACKWARD,
        grad, x, weight, of_mean, rstd, dx, dweight, dbias if centred else None, partials, count, length,
        number, number, 0, 0,
    )  # fmt: skip
    wanted.backward(exact(grad).detach())
    for ours, theirs in ((dx, truth), (dweight, scale), *([(dbias, offset_by)] if centred else [])):
        assert theirs.grad is not None
        kit.close(ours, theirs.grad)


@pytest.mark.parametrize("centred", [True, False], ids=["layer_norm", "rms_norm"])
@pytest.mark.parametrize(
    ("count", "length", "offset"),
    [(70, 200, 0), (40, 512, 0), (520, 128, 1), (2, 36_872, 0), (514, 12_400, 0), (514, 16_400, 0)],
)
def test_parameters_in_float32_beside_half_precision(
    centred: bool, count: int, length: int, offset: int
) -> None:
    """They are read and their gradients written in full: bits that float16 has not count."""
    kit, name = Kit("float16", offset), "layer_norm" if centred else "rms_norm"
    x, grad = kit.draw(count, length), kit.draw(count, length)
    y, dx = kit.room(count, length), kit.room(count, length)
    weight, bias, dweight, dbias = (kit.floats(length) for _ in range(4))
    weight[...], bias[...] = 1 + 2.0**-16 * np.arange(length), -1 + 2.0**-18 * np.arange(length)
    mean, rstd = kit.floats(count), kit.floats(count)
    sizes, of_mean = (count, length, 1, 0), mean if centred else None
    run(
        kit.device, f"{name}_forward", rows.FORWARD,
        x, weight, bias if centred else None, y, of_mean, rstd, *sizes, 1e-5, 0, 0,
    )  # fmt: skip
    truth, scale, shift = exact(x), exact(weight), exact(bias)
    wanted = normed(truth, scale, shift, centred)
    kit.close(y, wanted)
    partials = kit.floats(2 * count * length)
    run(
        kit.device, f"{name}_backward", rows.BACKWARD,
        grad, x, weight, of_mean, rstd, dx, dweight, dbias if centred else None, partials, *sizes, 0, 0,
    )  # fmt: skip
    wanted.backward(exact(grad).detach())
    assert truth.grad is not None
    kit.close(dx, truth.grad)
    for ours, theirs in ((dweight, scale), *([(dbias, shift)] if centred else [])):
        assert theirs.grad is not None
        np.testing.assert_allclose(ours, theirs.grad.numpy(), atol=1e-4 * count**0.5, rtol=1e-5)


@pytest.mark.parametrize(
    ("count", "length"), [(30, 4_096), (520, 4_096), (520, 10_000)], ids=["few", "one read", "long"]
)
def test_gradients_that_nobody_wants(count: int, length: int) -> None:
    kit = Kit("float32", 0)
    x, grad, y = kit.draw(count, length), kit.draw(count, length), kit.room(count, length)
    mean, rstd, partials = kit.floats(count), kit.floats(count), kit.floats(2 * count * length)
    run(
        kit.device, "layer_norm_forward", rows.FORWARD,
        x, None, None, y, mean, rstd, count, length, 0, 0, 1e-5, 0, 0,
    )  # fmt: skip

    def backward(dx: Array | None, dweight: Array | None, dbias: Array | None) -> None:
        run(
            kit.device, "layer_norm_backward", rows.BACKWARD,
            grad, x, None, mean, rstd, dx, dweight, dbias, partials, count, length, 0, 0, 0, 0,
        )  # fmt: skip

    every = [kit.room(count, length), kit.room(length), kit.room(length)]
    backward(*every)
    truth = exact(x)
    F.layer_norm(truth, (length,)).backward(exact(grad).detach())
    assert truth.grad is not None
    kit.close(every[0], truth.grad)
    for one in range(3):
        alone = [kit.room(*made.shape) if at == one else None for at, made in enumerate(every)]
        backward(*alone)
        np.testing.assert_array_equal(alone[one], every[one])  # to the bit


def test_a_large_common_offset_costs_no_digits() -> None:
    kit = Kit("float32", 0)
    for length in (1000, 36_872):
        x, y = kit.draw(2, length, shift=1e3), kit.room(2, length)
        run(kit.device, "layer_norm_forward", rows.FORWARD, x, 0, 0, y, 0, 0, 2, length, 0, 0, 1e-5, 0, 0)
        difference = np.abs(y - F.layer_norm(exact(x), (length,)).detach().numpy())
        assert difference.max() < 2e-4  # the last bit of 1000 is 6e-5


Reduction = Callable[[Kit, tuple[int, int, int]], None]
SHAPES = [
    (70, 8, 1),
    (70, 33, 1),
    (70, 24, 1),
    (70, 49, 1),
    (9, 77, 1),
    (3, 121, 1),
    (3, 197, 1),
    (1_500, 777, 1),  # so many that a warp takes a row of which nothing is stored
    (3, 1_500, 1),
    (2, 64, 1),
    (2, 768, 1),
    (2, 2000, 1),
    (2, 20_000, 1),
    (2, 36_872, 1),
    (3, 50, 40),
    (2, 100, 40),
    (1, 3, 65_600),
    (1, 3, 65_601),
    (2, 20, 33_000),
    (1, 1, 5),
]


def _softmax(kit: Kit, sizes: tuple[int, int, int]) -> None:
    x, grad, y, dx = kit.draw(*sizes), kit.draw(*sizes), kit.room(*sizes), kit.room(*sizes)
    number = NUMBERS[kit.dtype]
    run(kit.device, "softmax_forward", softmax.FORWARD, x, y, *sizes, number, 0, 0)
    truth = exact(x)
    wanted = truth.softmax(1)
    kit.close(y, wanted)
    run(kit.device, "softmax_backward", softmax.BACKWARD, grad, y, dx, *sizes, number, 0, 0)
    wanted.backward(exact(grad).detach())
    assert truth.grad is not None
    kit.close(dx, truth.grad)


def _logsumexp(kit: Kit, sizes: tuple[int, int, int]) -> None:
    outer, _, inner = sizes
    x, grad, dx = kit.draw(*sizes), kit.draw(outer, inner), kit.room(*sizes)
    y, stat, number = kit.room(outer, inner), kit.floats(outer * inner), NUMBERS[kit.dtype]
    run(kit.device, "logsumexp_forward", logsumexp.FORWARD, x, y, stat, *sizes, number, 0, 0)
    truth = exact(x)
    wanted = truth.logsumexp(1)
    kit.close(y, wanted)
    run(kit.device, "logsumexp_backward", logsumexp.BACKWARD, grad, x, stat, dx, *sizes, number, 0, 0)
    wanted.backward(exact(grad).detach())
    assert truth.grad is not None
    kit.close(dx, truth.grad)


@EVERY
@OFFSET
@pytest.mark.parametrize("kernel", [_softmax, _logsumexp], ids=["softmax", "logsumexp"])
@pytest.mark.parametrize("sizes", SHAPES, ids=str)
def test_reductions(kernel: Reduction, sizes: tuple[int, int, int], dtype: str, offset: int) -> None:
    kernel(Kit(dtype, offset), sizes)


INF, NAN = np.inf, np.nan
SPECIAL = {
    "equal": (1.5, 1.5), "one inf": (INF, 0.0), "inf and -inf": (INF, -INF), "all -inf": (-INF, -INF),
    "one NaN": (NAN, 1.0), "inf and NaN": (INF, NAN), "all NaN": (NAN, NAN),
    "masked but for one": (-1000.0, -INF), "masked to -30000": (2.0, -30000.0), "large": (60000.0, 59968.0),
}  # fmt: skip


@EVERY
@pytest.mark.parametrize("values", SPECIAL.values(), ids=SPECIAL.keys())
@pytest.mark.parametrize("sizes", [(1, 100, 1), (1, 1500, 1), (1, 33_000, 1), (1, 70, 3)], ids=str)
def test_special_rows(sizes: tuple[int, int, int], values: tuple[float, float], dtype: str) -> None:
    """Rows of the second value, but for the first in one place."""
    kit, number = Kit(dtype, 0), NUMBERS[dtype]
    row = np.full(sizes, values[1])
    row[:, sizes[1] // 2] = values[0]
    x, y, result = placed(kit.device, row, dtype, 0), kit.room(*sizes), kit.room(1, sizes[2])
    run(kit.device, "softmax_forward", softmax.FORWARD, x, y, *sizes, number, 0, 0)
    run(kit.device, "logsumexp_forward", logsumexp.FORWARD, x, result, None, *sizes, number, 0, 0)
    for ours, theirs in ((y, exact(x).softmax(1)), (result, exact(x).logsumexp(1))):
        wanted, allowed = theirs.detach().numpy(), TOLERANCE[dtype]
        np.testing.assert_allclose(ours.astype("float64"), wanted, atol=allowed, rtol=allowed)


@EVERY
@OFFSET
@pytest.mark.parametrize("tanh", [False, True], ids=["exact", "tanh"])
@pytest.mark.parametrize("count", [3, 1024, 2055, 1_081_351])  # the last: more threads than at once
def test_gelu(tanh: bool, count: int, dtype: str, offset: int) -> None:
    kit, number = Kit(dtype, offset), NUMBERS[dtype]
    x, grad, y, dx = kit.draw(count), kit.draw(count), kit.room(count), kit.room(count)
    run(kit.device, "gelu_forward", gelu.FORWARD, x, y, count, tanh, number, 0, 0)
    truth = exact(x)
    wanted = F.gelu(truth, approximate="tanh" if tanh else "none")
    kit.close(y, wanted)
    run(kit.device, "gelu_backward", gelu.BACKWARD, grad, x, dx, count, tanh, number, 0, 0)
    wanted.backward(exact(grad).detach())
    assert truth.grad is not None
    kit.close(dx, truth.grad)


@pytest.mark.parametrize("tanh", [False, True], ids=["exact", "tanh"])
def test_gelu_from_end_to_end(tanh: bool) -> None:
    """No further from float64 than torch's own, and what is no number or has no end comes out as there."""
    kit, form = Kit("float32", 0), "tanh" if tanh else "none"
    ends = [np.inf, -np.inf, np.nan, 1e30, -1e30, 30.0, -30.0, 0.0, -0.0]
    x = placed(kit.device, np.concatenate([np.linspace(-13, 13, 20_001), ends]), "float32", 0)
    grad = placed(kit.device, np.ones(x.size), "float32", 0)
    y, dx = kit.room(x.size), kit.room(x.size)
    run(kit.device, "gelu_forward", gelu.FORWARD, x, y, x.size, tanh, 0, 0, 0)
    run(kit.device, "gelu_backward", gelu.BACKWARD, grad, x, dx, x.size, tanh, 0, 0, 0)
    truth, native = exact(x), torch.tensor(x, requires_grad=True)
    for given in (truth, native):
        F.gelu(given, approximate=form).sum().backward()
    assert truth.grad is not None
    assert native.grad is not None
    results = (
        (y, F.gelu(truth, approximate=form), F.gelu(native, approximate=form)),
        (dx, truth.grad, native.grad),
    )
    for ours, *others in results:
        wanted, theirs = (values.detach().numpy() for values in others)
        assert (np.isfinite(ours) == np.isfinite(theirs)).all()
        near = slice(x.size - len(ends))
        worst = np.abs(theirs[near] - wanted[near]).max()
        np.testing.assert_allclose(ours[near], wanted[near], rtol=0, atol=1.1 * worst)
