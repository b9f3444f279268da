"""Replayed calls give what Python's give: values, gradients and errors, for every kind its own."""

import threading
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from kernels.replaying_calls import Call, Calls, assert_alike, drawn, rms, rms_by_torch, silu_product, step

from agent.kernels.add_rms_norm.operator import add_rms_norm
from agent.kernels.gate_product.operator import gate_product, gate_product_halves
from agent.kernels.rms_norm.operator import rms_norm
from agent.kernels.softmax.operator import softmax


def test_the_second_call_of_a_kind_is_replayed(calls: Calls) -> None:
    before = calls.since()
    for _ in range(4):
        x = drawn(3, 8)
        torch.testing.assert_close(rms(x), rms_by_torch(x))
    assert calls.since(before) == (1, 3)


@pytest.mark.parametrize(
    ("ours", "torchs", "shapes"),
    [
        (rms, rms_by_torch, [(3, 8)]),
        (rms, rms_by_torch, [(2, 3, 8), (8,)]),
        (lambda x: softmax(x, 1), lambda x: torch.softmax(x, 1), [(2, 5, 3)]),
        (gate_product, silu_product, [(4, 6), (4, 6)]),
        (gate_product_halves, lambda x: silu_product(*x.chunk(2, -1)), [(4, 6)]),
        (
            lambda x, r, w: add_rms_norm(x, r, (8,), w, 1e-5),
            lambda x, r, w: (rms_by_torch(x + r, w), x + r),
            [(3, 8), (3, 8), (8,)],
        ),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_training_steps(
    ours: Call, torchs: Call, shapes: list[tuple[int, ...]], dtype: torch.dtype, calls: Calls
) -> None:
    for number in range(4):
        tensors = [drawn(*shape, dtype=dtype) for shape in shapes]
        before = calls.since()
        wide = [one.to(dtype) for one in step(torchs, *(tensor.float() for tensor in tensors))]
        assert_alike(step(ours, *tensors), wide)
        # The first forward, and the first backward of a replayed one, are Python's.
        assert calls.since(before) == [(2, 0), (1, 1), (0, 2), (0, 2)][number]


KINDS: dict[str, Callable[[], torch.Tensor]] = {
    "plain": lambda: drawn(4, 8),
    "other sizes": lambda: drawn(8, 4),
    "same elements, other rank": lambda: drawn(2, 2, 8),
    "transposed": lambda: drawn(8, 4).t(),
    "every other column": lambda: drawn(4, 16)[:, ::2],
    "off by four bytes": lambda: drawn(33)[1:].view(4, 8),
    "expanded": lambda: drawn(8).expand(4, 8),
    "bfloat16": lambda: drawn(4, 8, dtype=torch.bfloat16),
    "wants a gradient": lambda: drawn(4, 8).requires_grad_(),
    "part of a graph": lambda: drawn(4, 8).requires_grad_() * 2,
    "empty": lambda: drawn(0, 8),
    "in inference mode": lambda: _inferred(drawn(4, 8)),
}


def _inferred(x: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        return x.clone()


def test_kinds_do_not_meet(calls: Calls) -> None:
    """Whatever was recorded before: each call has the geometry, dtype and graph of its own tensors."""
    for _ in range(3):
        for make in KINDS.values():
            x = make()
            ours, torchs = rms(x), rms_by_torch(x)
            assert_alike([ours.detach()], [torchs.detach()])
            assert (ours.dtype, ours.shape, ours.requires_grad) == (
                torchs.dtype,
                x.shape,
                torchs.requires_grad,
            )
            with torch.no_grad():
                assert not rms(x).requires_grad


def test_settings_are_part_of_the_kind(calls: Calls) -> None:
    x = drawn(3, 8)
    for _ in range(3):
        for eps in (1e-5, 1.0, 1, 0.0, None, True):
            expected = F.rms_norm(x, (8,), None, eps)
            torch.testing.assert_close(rms_norm(x, (8,), None, eps), expected)
            torch.testing.assert_close(rms_norm(x, [8], eps=eps), expected)
        torch.testing.assert_close(rms_norm(x, (3, 8)), F.rms_norm(x, (3, 8)))
        for dim in (0, 1, -1, -2):
            torch.testing.assert_close(softmax(x, dim), torch.softmax(x, dim))
            torch.testing.assert_close(softmax(x, dim=dim), torch.softmax(x, dim))
    with pytest.raises((RuntimeError, IndexError)):
        softmax(x, 5)


def test_tensors_that_share_memory(calls: Calls) -> None:
    """An address may be that of two tensors in one call, and not in the next."""
    for _ in range(3):
        x, other = drawn(4, 8), drawn(4, 8)
        wide = drawn(4, 16)
        for pair in ((x, x), (x, other), (x, x.clone()), wide.chunk(2, -1), wide.chunk(2, -1)[::-1]):
            assert_alike(step(gate_product, *pair), step(silu_product, *pair))
        flat = drawn(64)
        for shift in (0, 8, 16):
            pair = flat[:32].view(4, 8), flat[shift : shift + 32].view(4, 8)
            torch.testing.assert_close(gate_product(*pair), silu_product(*pair))


def test_memory_that_was_freed_and_taken_again(calls: Calls) -> None:
    for number in range(6):
        x = drawn(4, 8)
        y = rms(x)
        torch.testing.assert_close(y, rms_by_torch(x))
        del x, y
        taken = [drawn(4, 8) for _ in range(number)]
        assert len(taken) == number


def test_threads(calls: Calls) -> None:
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(40):
                x = drawn(1 + (number + turn) % 3, 8).requires_grad_()
                assert_alike(step(rms, x), step(rms_by_torch, x))
        except BaseException as error:  # noqa: BLE001  # told to the test
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_what_torch_compile_made_is_replayed(calls: Calls) -> None:
    """Forward and backward, also where a gradient is not wanted: the operator answers an empty one."""
    torch._dynamo.reset()
    x, weight = drawn(4, 8), torch.ones(8)
    wanted = step(rms_by_torch, x)
    compiled = torch.compile(rms, fullgraph=True, backend="aot_eager")
    grad = torch.sin(torch.arange(32.0)).view(4, 8)
    for turn in range(4):
        before = calls.since()
        leaf = x.clone().requires_grad_()
        value = compiled(leaf, weight)
        assert_alike((value, *torch.autograd.grad(value, leaf, grad)), wanted)
        assert turn < 2 or calls.since(before) == (0, 2)
