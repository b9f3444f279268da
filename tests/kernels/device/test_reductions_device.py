"""The device code of the reductions, both directions, checked by the emulator, against float64."""

import math

import numpy as np
import pytest
import torch
from kernels.device.plain_library import NUMBERS, Kit, exact, placed, run

from agent.kernels.reduction import operator as reduction

KERNELS = ("reduction",)
EVERY = pytest.mark.parametrize("dtype", list(NUMBERS))


SIZES = [
    ((1, 1, 1, 40_000, 1), 0),  # parts of one row
    ((700, 1, 1, 5, 1), 0),
    ((9, 1, 1, 1_000, 1), 1),
    ((3, 1, 1, 7, 24), 0),
    ((1, 1, 1, 3_000, 8), 0),  # parts of a few columns
    ((2, 1, 1, 60, 33), 1),
    ((2, 30, 3, 40, 1), 0),
    ((1, 2_100, 2, 3, 1), 1),  # parts of both runs
    ((2, 5, 3, 7, 8), 0),
    ((2, 9, 70, 24, 1), 0),  # both runs in one pass
    ((1, 24, 43, 1_024, 1), 0),  # the same, in parts
    ((1, 1, 1, 40, 4_104), 0),  # columns enough for no parts
    ((600, 1, 1, 88, 1), 0),  # all packs of a row under way
    ((5, 1, 3, 2_051, 1), 0),  # rows that are no whole packs, by packs
]


@EVERY
@pytest.mark.parametrize(("sizes", "offset"), SIZES)
@pytest.mark.parametrize("kind", reduction.KINDS)
def test_reductions(kind: str, sizes: tuple[int, int, int, int, int], offset: int, dtype: str) -> None:
    if kind == "argmax" and sizes[1] > 1:
        return  # it takes one run
    kit, result = Kit(dtype, offset, KERNELS), (sizes[0], sizes[2], sizes[4])
    x, dims = kit.draw(*sizes), [3] if kind == "argmax" else [1, 3]
    x[...] = (2 * x).round() / 2  # so that values are equal
    y = kit.device.empty(math.prod(result), "int64" if kind == "argmax" else dtype).reshape(result)
    beside, workspace = kit.floats(y.size), kit.device.empty(16 * x.size, "uint8")
    factor = 1 / (sizes[1] * sizes[3]) if kind == "mean" else 1.0
    number = (reduction.KINDS[kind], NUMBERS[dtype], 0, 0)
    kept = None if kind == "argmax" else beside
    run(
        kit.device, "reduction_forward", reduction.FORWARD,
        x, y, kept, workspace, *sizes, number[0], factor, *number[1:],
    )  # fmt: skip
    truth = exact(x)
    wanted = reduction.in_torch(truth, kind, dims, keepdim=False)
    if kind == "argmax":
        np.testing.assert_array_equal(y, wanted.reshape(result))
        return
    kit.close(y, wanted)
    if kind not in ("amax", "norm"):
        return
    grad, dx = kit.draw(*result), kit.room(*sizes)
    run(
        kit.device, "reduction_backward", reduction.BACKWARD,
        grad, x, y, beside, dx, *sizes, *number,
    )  # fmt: skip
    wanted.backward(exact(grad).detach())
    assert truth.grad is not None
    kit.close(dx, truth.grad)


@EVERY
@pytest.mark.parametrize(("sizes", "offset"), SIZES)
def test_gradient_of_largest_values_that_stand_alone(
    sizes: tuple[int, int, int, int, int], offset: int, dtype: str
) -> None:
    """Some of them: others stand in many places, and one result is of -inf alone."""
    kit, result = Kit(dtype, offset, KERNELS), (sizes[0], sizes[2], sizes[4])
    x = kit.draw(*sizes)
    x[...] = x.clip(-1, 1)
    x[0, 0, 0, :1], x[-1, -1, -1, -1, -1] = 2, 3
    y, beside = kit.device.empty(math.prod(result), dtype).reshape(result), kit.floats(math.prod(result))
    workspace, number = kit.device.empty(16 * x.size, "uint8"), reduction.KINDS["amax"]
    ends = (NUMBERS[dtype], 0, 0)
    run(
        kit.device, "reduction_forward", reduction.FORWARD,
        x, y, beside, workspace, *sizes, number, 1.0, *ends,
    )  # fmt: skip
    truth = exact(x)
    wanted = torch.amax(truth, (1, 3))
    np.testing.assert_array_equal(y, wanted.detach().numpy())
    codes = np.asarray(beside).view("int32")
    assert sizes[1] > 1 or (codes >= 0).any()
    grad, dx = kit.draw(*result), kit.room(*sizes)
    run(kit.device, "reduction_backward", reduction.BACKWARD, grad, x, y, beside, dx, *sizes, number, *ends)
    wanted.backward(exact(grad).detach())
    assert truth.grad is not None
    kit.close(dx, truth.grad)


@pytest.mark.parametrize("across", [False, True], ids=["rows", "columns"])
def test_gradient_of_largest_values_that_are_nan_or_infinite(across: bool) -> None:
    kit, shape = Kit("float32", 0, KERNELS), (5, 200)
    x = kit.draw(*shape)
    x[0, [7, 150]], x[1], x[2, 9], x[3, 199], x[4] = np.nan, -np.inf, np.inf, 99, -np.inf
    x[1, 20] = np.nan
    sizes = (1, 1, 1, 200, 5) if across else (5, 1, 1, 200, 1)
    laid = placed(kit.device, x.T.copy(), "float32", 0) if across else x
    y, beside, dx = kit.floats(5), kit.floats(5), kit.room(*laid.shape)
    workspace, grad = kit.device.empty(16 * x.size, "uint8"), kit.draw(5)
    number = reduction.KINDS["amax"]
    run(
        kit.device, "reduction_forward", reduction.FORWARD,
        laid, y, beside, workspace, *sizes, number, 1.0, 0, 0, 0,
    )  # fmt: skip
    run(
        kit.device, "reduction_backward", reduction.BACKWARD,
        grad, laid, y, beside, dx, *sizes, number, 0, 0, 0,
    )  # fmt: skip
    truth = torch.tensor(x).requires_grad_()
    (wanted,) = torch.autograd.grad(torch.amax(truth, 1), truth, torch.tensor(grad))
    found = dx.T if across else dx
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("across", [False, True], ids=["rows", "columns"])
def test_places_of_nan_and_infinity(across: bool) -> None:
    kit, shape = Kit("float32", 0, KERNELS), (6, 200)
    x = kit.draw(*shape)
    x[0, [7, 150]], x[1], x[2, [9, 10]], x[3, 199], x[4, [3, 90]] = np.nan, -np.inf, np.inf, 99, 50
    x[1, 20] = np.nan
    x[5] = -np.inf
    y = kit.device.empty(6, "int64")
    sizes = (1, 1, 1, 200, 6) if across else (6, 1, 1, 200, 1)
    laid = placed(kit.device, x.T.copy(), "float32", 0) if across else x
    workspace = kit.device.empty(16 * x.size, "uint8")
    number = (reduction.KINDS["argmax"], 1.0, 0, 0, 0)
    run(kit.device, "reduction_forward", reduction.FORWARD, laid, y, None, workspace, *sizes, *number)
    np.testing.assert_array_equal(y, torch.tensor(x).argmax(1))
