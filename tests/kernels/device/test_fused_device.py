"""The fused plain kernels' device code, both directions, checked by the emulator, against float64."""

from typing import Any

import numpy as np
import pytest
import torch
from kernels.device.plain_library import NUMBERS, Kit, exact, normed, placed, run

from agent.kernels import add_rows, rows
from agent.kernels.cross_entropy import operator as cross_entropy
from agent.kernels.gate_product import operator as gate_product
from agent.kernels.rotary import operator as rotary

EVERY = pytest.mark.parametrize("dtype", list(NUMBERS))
OFFSET = pytest.mark.parametrize("offset", [0, 1], ids=["aligned", "unaligned"])
LAST_BIT = 2.0**-24


@EVERY
@pytest.mark.parametrize("centred", [True, False], ids=["add_layer_norm", "add_rms_norm"])
@pytest.mark.parametrize(
    ("count", "length", "offset"),
    [
        (70, 33, 1),
        (17, 1_537, 0),
        (9, 61, 0),
        (70, 24, 0),
        (40, 64, 0),
        (33, 128, 0),
        (20, 256, 0),
        (520, 64, 0),
        (520, 256, 0),
        (130, 1_024, 0),
        (1_500, 768, 0),
        (300, 4_096, 0),
        (520, 500, 1),
        (530, 203, 0),
        (2, 10_000, 0),
        (520, 8_200, 0),
        (1, 36_872, 1),
        (3, 36_872, 0),
    ],  # fmt: skip
)
def test_norms_of_a_sum(centred: bool, count: int, length: int, offset: int, dtype: str) -> None:
    kit, name = Kit(dtype, offset), "add_layer_norm" if centred else "add_rms_norm"
    x, residual, grad, of_sum = (kit.draw(count, length) for _ in range(4))
    weight, bias = kit.draw(length), kit.draw(length) if centred else None
    y, added, dx = (kit.room(count, length) for _ in range(3))
    dweight, dbias = kit.room(length), kit.room(length) if centred else None
    rstd, mean, number = kit.floats(count), kit.floats(count) if centred else None, NUMBERS[dtype]
    sizes = (count, length, number, number)
    run(
        kit.device, f"{name}_forward", add_rows.FORWARD,
        x, residual, weight, bias, y, added, mean, rstd, *sizes, 1e-5, 0, 0,
    )  # fmt: skip
    np.testing.assert_array_equal(added, (x.astype("float32") + residual.astype("float32")).astype(dtype))
    truth, scale, shift = exact(added), exact(weight), None if bias is None else exact(bias)
    wanted = normed(truth, scale, shift, centred)
    kit.close(y, wanted)
    partials = kit.floats(2 * count * length)
    run(
        kit.device, f"{name}_backward", add_rows.BACKWARD,
        grad, of_sum, added, weight, mean, rstd, dx, dweight, dbias, partials, *sizes, 0, 0,
    )  # fmt: skip
    torch.autograd.backward([wanted, truth], [exact(grad).detach(), exact(of_sum).detach()])
    for ours, theirs in ((dx, truth), (dweight, scale), (dbias, shift)):
        if ours is not None and theirs is not None:
            assert theirs.grad is not None
            kit.close(ours, theirs.grad)


@EVERY
@pytest.mark.parametrize(("count", "length"), [(60_000, 128), (101_500, 64)])
@pytest.mark.parametrize("summed", [False, True], ids=["rms_norm", "add_rms_norm"])
def test_many_short_rows(count: int, length: int, summed: bool, dtype: str) -> None:
    """More than registers have room for at once: some go through shared memory."""
    kit, number = Kit(dtype, 0), NUMBERS[dtype]
    x, weight, y = kit.draw(count, length), kit.draw(length), kit.room(count, length)
    sizes = (count, length, number, number, 1e-5, 0, 0)
    normal = x
    if summed:
        residual, normal = kit.draw(count, length), kit.room(count, length)
        run(
            kit.device, "add_rms_norm_forward", add_rows.FORWARD,
            x, residual, weight, None, y, normal, None, None, *sizes,
        )  # fmt: skip
        wanted = (x.astype("float32") + residual.astype("float32")).astype(dtype)
        np.testing.assert_array_equal(normal, wanted)
    else:
        run(kit.device, "rms_norm_forward", rows.FORWARD, x, weight, None, y, None, None, *sizes)
    kit.close(y, normed(exact(normal), exact(weight), None, False))


@EVERY
@OFFSET
@pytest.mark.parametrize("act", gate_product.ACTS)
def test_gates_of_two_halves(act: str, offset: int, dtype: str) -> None:
    """The first half is the value: rows a stride apart, read and written where they lie."""
    kit, rows, length = Kit(dtype, offset), 37, 40 + offset
    x, dx = kit.draw(rows, 2 * length), kit.room(rows, 2 * length)
    grad, y = kit.draw(rows, length), kit.room(rows, length)
    gate, value = x[:, length:], x[:, :length]
    numbers = (gate_product.ACTS[act], NUMBERS[dtype], 0, 0)
    strides = (2 * length, 2 * length)
    run(
        kit.device,
        "gate_product_forward",
        gate_product.FORWARD,
        gate,
        value,
        y,
        rows,
        length,
        *strides,
        *numbers,
    )
    truth = exact(x)
    wanted = truth[:, :length] * gate_product._activated(truth[:, length:], act)
    kit.close(y, wanted)
    run(
        kit.device, "gate_product_backward", gate_product.BACKWARD,
        grad, gate, value, dx[:, length:], dx[:, :length], rows, length, *strides, 2 * length, *numbers,
    )  # fmt: skip
    wanted.backward(exact(grad).detach())
    assert truth.grad is not None
    kit.close(dx, truth.grad)


@pytest.mark.parametrize("act", gate_product.ACTS)
def test_gates_from_end_to_end(act: str) -> None:
    """Of two tensors; about as far from float64 as torch's own, and what has no end comes out as there."""
    kit, number = Kit("float32", 0), gate_product.ACTS[act]
    ends = [np.inf, -np.inf, np.nan, 1e30, -1e30, 100.0, -100.0, 0.0]
    gate = placed(kit.device, np.concatenate([np.linspace(-20, 20, 2_000), ends]), "float32", 0)
    value, y, dgate = (placed(kit.device, np.ones(gate.size), "float32", 0) for _ in range(3))
    sizes = (1, gate.size, gate.size, gate.size)
    run(kit.device, "gate_product_forward", gate_product.FORWARD, gate, value, y, *sizes, number, 0, 0, 0)
    run(
        kit.device, "gate_product_backward", gate_product.BACKWARD,
        value, gate, value, dgate, None, *sizes, gate.size, number, 0, 0, 0,
    )  # fmt: skip
    truth, native = exact(gate), torch.tensor(gate, requires_grad=True)
    wanted, torchs = (gate_product._activated(given, act) for given in (truth, native))
    (wanted.sum() + torchs.sum()).backward()
    assert truth.grad is not None
    assert native.grad is not None
    near = slice(gate.size - len(ends))
    for ours, best, other in ((y, wanted, torchs), (dgate, truth.grad, native.grad)):
        right, theirs = best.detach().numpy(), other.detach().numpy()
        assert (np.isfinite(ours) == np.isfinite(theirs)).all()
        worst = max(np.abs(theirs[near] - right[near]).max(), LAST_BIT * np.abs(right[near]).max())
        np.testing.assert_allclose(ours[near], right[near], rtol=0, atol=2 * worst)


@EVERY
@OFFSET
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dim", [-2, -3])
def test_turns_in_place_and_back(dim: int, interleaved: bool, offset: int, dtype: str) -> None:
    """By tables, in place; the gradient by frequencies and tables, out of place. A part of each row stays."""
    kit, shape, pairs = Kit(dtype, offset), (3, 5, 7, 64), 16
    x, positions, start = kit.draw(*shape), shape[dim], 1000
    frequencies = kit.floats(pairs)
    frequencies[...] = 1e4 ** (-np.arange(pairs) / pairs)
    angles = np.outer(np.arange(start, start + positions), frequencies)
    cos, sin = (kit.floats(angles.size).reshape(angles.shape) for _ in range(2))
    cos[...], sin[...] = np.cos(angles), np.sin(angles)
    truth, (c, s) = exact(x), (torch.tensor(table.astype("float64")) for table in (cos, sin))
    wanted = rotary.in_torch(truth, c, s, dim, interleaved)
    inner = 7 if dim == -3 else 1
    sizes = (105, inner, positions, shape[-1], pairs)
    numbers = (NUMBERS[dtype], 0, 0, 0)  # tables in float32

    def turned(x: Any, table: Any, sin: Any, y: Any, start: int, backwards: int) -> None:
        given = (x, table, sin, y, *sizes, start, interleaved, backwards)
        run(kit.device, "rotary_forward", rotary.FORWARD, *given, *numbers, *rotary.DENSE)

    turned(x, cos, sin, x, 0, 0)
    kit.close(x, wanted)
    grad, dx, same = kit.draw(*shape), kit.room(*shape), kit.room(*shape)
    turned(grad, frequencies, None, dx, start, 1)
    turned(grad, cos, sin, same, 0, 1)
    wanted.backward(exact(grad).detach())
    assert truth.grad is not None
    kit.close(same, truth.grad)
    allowed = 1e-4 if dtype == "float32" else 4e-3  # an angle near 1000 is known to 3e-5
    np.testing.assert_allclose(dx.astype("float64"), truth.grad.numpy(), rtol=allowed, atol=allowed)


@pytest.mark.parametrize("interleaved", [False, True])
def test_turns_by_way_of_shared_memory(interleaved: bool) -> None:
    """In place, of as many rows as half the SMs of a GPU take at once. A part of each row stays."""
    kit, positions, pairs = Kit("float32", 0), 113, 48
    x = kit.draw(20, positions, 128)
    cos, sin = (kit.floats(positions * pairs).reshape(positions, pairs) for _ in range(2))
    cos[...], sin[...] = (kit.random.standard_normal((positions, pairs)) for _ in range(2))
    c, s = (torch.tensor(table.astype("float64")) for table in (cos, sin))
    wanted = rotary.in_torch(exact(x), c, s, -2, interleaved)
    sizes = (20 * positions, 1, positions, 128, pairs)
    run(
        kit.device, "rotary_forward", rotary.FORWARD,
        x, cos, sin, x, *sizes, 0, interleaved, 0, NUMBERS["float32"], 0, 0, 0, *rotary.DENSE,
    )  # fmt: skip
    kit.close(x, wanted)


@EVERY
@OFFSET
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(
    ("dim", "order"), [(-2, (0, 3, 1, 4)), (-3, (0, 1, 3, 4)), (-2, (3, 0, 1, 4)), (-3, (3, 1, 0, 4))]
)
def test_turns_what_lies_beside_something_else(
    dim: int, order: tuple[int, ...], interleaved: bool, offset: int, dtype: str
) -> None:
    """Keys of a projection that holds queries, keys and values, their dimensions in several orders."""
    kit = Kit(dtype, offset)
    whole = kit.draw(2, 5, 3, 4, 16)  # images, positions, which of the three, heads
    keys = whole[:, :, 1].transpose([place - (place > 2) for place in order])
    x = torch.tensor(whole.astype("float64"))[:, :, 1].permute([place - (place > 2) for place in order])
    _, gaps = rotary._placed(x, dim)
    assert gaps != rotary.DENSE
    cos, sin = (kit.floats(5 * 8).reshape(5, 8) for _ in range(2))
    cos[...], sin[...] = (kit.random.standard_normal((5, 8)) for _ in range(2))
    inner, y = x.shape[2] if dim == -3 else 1, kit.room(*x.shape)
    run(
        kit.device, "rotary_forward", rotary.FORWARD,
        keys, cos, sin, y, 40, inner, 5, 16, 8, 0, interleaved, 0, NUMBERS[dtype], 0, 0, 0, *gaps,
    )  # fmt: skip
    c, s = (torch.tensor(table.astype("float64")) for table in (cos, sin))
    kit.close(y, rotary.in_torch(x, c, s, dim, interleaved))


@EVERY
@pytest.mark.parametrize(
    ("rows", "length", "offset"),
    [(70, 8, 0), (300, 10, 0), (70, 3, 1), (9, 16, 1), (9, 33, 1), (6, 100, 0), (5, 203, 0), (3, 301, 0),
     (4, 504, 0), (5, 997, 0), (5, 2_000, 0), (257, 1_100, 0), (2, 5_003, 0), (2, 36_872, 0)],
)  # fmt: skip
@pytest.mark.parametrize(("smoothing", "z_loss"), [(0.0, 0.0), (0.1, 0.01)])
def test_losses(rows: int, length: int, offset: int, smoothing: float, z_loss: float, dtype: str) -> None:
    """The first row is ignored; losses and their gradient in the dtype of the logits, or in float32."""
    kit, ignored = Kit(dtype, offset), -3
    x, dx = kit.draw(rows, length, shift=30.0), kit.room(rows, length)
    target = kit.device.empty(rows, "int64")
    target[...] = kit.random.integers(0, length, rows)
    target[0] = ignored
    narrow, lse = int(smoothing == 0), kit.floats(rows)
    loss, grad = (kit.room(rows) if narrow else kit.floats(rows) for _ in range(2))
    grad[...] = kit.random.standard_normal(rows)
    sizes, number = (rows, length, ignored, smoothing, z_loss, narrow), NUMBERS[dtype]
    run(
        kit.device, "cross_entropy_forward", cross_entropy.FORWARD, x, target, loss, lse, *sizes, number, 0, 0
    )
    truth, chosen = exact(x), torch.tensor(target)
    wanted = cross_entropy.in_torch(truth, chosen, ignored, smoothing, z_loss)
    kit.close(loss, wanted)
    run(
        kit.device, "cross_entropy_backward", cross_entropy.BACKWARD,
        grad, x, target, lse, dx, *sizes, number, 0, 0,
    )  # fmt: skip
    wanted.backward(exact(grad).detach())
    assert truth.grad is not None
    kit.close(dx, truth.grad)
