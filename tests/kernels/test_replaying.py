"""Replayed calls give what Python's give: values, gradients and errors, for every kind its own."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from kernels.replaying_calls import Calls
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

from agent.kernels.add_rms_norm.operator import add_rms_norm
from agent.kernels.binding import LaunchError
from agent.kernels.gate_product.operator import gate_product, gate_product_halves
from agent.kernels.rms_norm.operator import rms_norm
from agent.kernels.softmax.operator import softmax

Call = Callable[..., Any]


def rms(x: torch.Tensor, weight: torch.Tensor | None = None) -> torch.Tensor:
    return rms_norm(x, (x.shape[-1],), weight, 1e-5)


def rms_by_torch(x: torch.Tensor, weight: torch.Tensor | None = None) -> torch.Tensor:
    return F.rms_norm(x, (x.shape[-1],), weight, 1e-5)


def silu_product(gate: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return F.silu(gate) * value


def step(call: Call, *tensors: torch.Tensor) -> list[torch.Tensor]:
    """Value and gradients, by gradients that are drawn from the values' shapes."""
    leaves = [tensor.detach().requires_grad_() for tensor in tensors]
    made = call(*leaves)
    values = made if isinstance(made, tuple) else (made,)
    grads = [torch.sin(torch.arange(value.numel())).view_as(value).to(value.dtype) for value in values]
    return [*values, *torch.autograd.grad(values, leaves, grads)]


def assert_alike(ours: Any, torchs: Any) -> None:
    for one, other in zip(ours, torchs, strict=True):
        near = 2e-2 if one.dtype == torch.bfloat16 else 1e-5
        torch.testing.assert_close(one, other, atol=near, rtol=near)


def drawn(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape).to(dtype)


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


def grads_of(call: Call, given: list[torch.Tensor | None]) -> list[torch.Tensor]:
    """Of two values, one of which may not be used."""
    torch.manual_seed(0)
    leaves = [drawn(3, 8).requires_grad_(), drawn(3, 8).requires_grad_(), drawn(8).requires_grad_()]
    values = call(*leaves)
    used = [(value, grad) for value, grad in zip(values, given, strict=True) if grad is not None]
    torch.autograd.backward([value for value, _ in used], [grad for _, grad in used])
    return [leaf.grad for leaf in leaves if leaf.grad is not None]


def test_gradients_of_every_layout_and_of_one_value_alone(calls: Calls) -> None:
    def ours(x: torch.Tensor, r: torch.Tensor, w: torch.Tensor) -> Any:
        return add_rms_norm(x, r, (8,), w, 1e-5)

    def torchs(x: torch.Tensor, r: torch.Tensor, w: torch.Tensor) -> Any:
        return rms_by_torch(x + r, w), x + r

    dense, expanded, turned = drawn(3, 8), drawn(1, 1).expand(3, 8), drawn(8, 3).t()
    for _ in range(3):
        for first in (dense, expanded, turned, None):
            for second in (dense, expanded, None):
                if first is not None or second is not None:
                    assert_alike(grads_of(ours, [first, second]), grads_of(torchs, [first, second]))


def test_some_gradients_are_not_wanted(calls: Calls) -> None:
    for _ in range(3):
        x, w = drawn(3, 8).requires_grad_(), drawn(8).requires_grad_()
        for of in ((x, w), (x,), (w,)):
            ours = torch.autograd.grad(rms(x, w).sum(), of)
            assert_alike(ours, torch.autograd.grad(rms_by_torch(x, w).sum(), of))
        still = w.detach()
        ours = torch.autograd.grad(rms(x, still).sum(), x)
        assert_alike(ours, torch.autograd.grad(rms_by_torch(x, still).sum(), x))
        ours = torch.autograd.grad(rms(x.detach(), w).sum(), w)
        assert_alike(ours, torch.autograd.grad(rms_by_torch(x, w).sum(), w))


def replayed_twice(x: torch.Tensor) -> torch.Tensor:
    """A value whose forward and backward call were recorded before."""
    for _ in range(3):
        torch.autograd.grad(rms(x).sum(), x)
    return rms(x)


def test_leaves_accumulate_and_graphs_can_be_kept(calls: Calls) -> None:
    x = drawn(3, 8).requires_grad_()
    y = replayed_twice(x)
    assert y.grad_fn is not None
    assert y.grad_fn.name() == "rms_norm_backward"
    y.sum().backward(retain_graph=True)
    once = x.grad.clone()  # type: ignore[union-attr]
    y.sum().backward()
    torch.testing.assert_close(x.grad, 2 * once)
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()


def test_hooks(calls: Calls) -> None:
    x = drawn(3, 8).requires_grad_()
    y = replayed_twice(x)
    seen: list[str] = []

    def doubled(grad: torch.Tensor) -> torch.Tensor:
        seen.append("value")
        return 2 * grad

    x.register_hook(lambda grad: seen.append("leaf"))
    y.register_hook(doubled)
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append("node"))  # type: ignore[union-attr]
    y.retain_grad()
    y.sum().backward()
    assert seen == ["value", "node", "leaf"]
    torch.testing.assert_close(y.grad, torch.full_like(y, 2))
    torch.testing.assert_close(x.grad, 2 * torch.autograd.grad(rms_by_torch(x).sum(), x)[0])


def test_a_gradient_of_a_gradient_is_refused(calls: Calls) -> None:
    x = drawn(3, 8).requires_grad_()
    (grad,) = torch.autograd.grad(replayed_twice(x).square().sum(), x, create_graph=True)
    torch.testing.assert_close(grad, torch.autograd.grad(rms_by_torch(x).square().sum(), x)[0])
    assert grad.requires_grad
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()


def test_a_change_of_what_was_saved_is_found(calls: Calls) -> None:
    x = drawn(3, 8).requires_grad_()
    moved = x * 1
    y = replayed_twice(moved)
    moved.detach().add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    for _ in range(3):
        y = softmax(x, 1)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_saved_tensors_may_lie_elsewhere(calls: Calls) -> None:
    x = drawn(3, 8).requires_grad_()
    expected = torch.autograd.grad(rms_by_torch(x).sum(), x)
    packed: list[torch.Size] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        packed.append(tensor.shape)
        return tensor.t().clone() if tensor.dim() > 1 else tensor.clone()

    for _ in range(3):
        with save_on_cpu():
            assert_alike(torch.autograd.grad(rms(x).sum(), x), expected)
        # What comes back has another layout: it is another kind.
        with saved_tensors_hooks(pack, lambda tensor: tensor.t() if tensor.dim() > 1 else tensor):
            y = rms(x)
        assert_alike(torch.autograd.grad(y.sum(), x), expected)
    assert packed == [(3, 8), (3,)] * 3


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints(reentrant: bool, calls: Calls) -> None:
    w = drawn(8).requires_grad_()
    for _ in range(4):
        x = drawn(3, 8).requires_grad_()
        y = checkpoint(lambda one: rms(rms(one, w), w), x, use_reentrant=reentrant)
        y.square().sum().backward()
        expected = torch.autograd.grad(rms_by_torch(rms_by_torch(x, w), w).square().sum(), (x, w))
        assert_alike([x.grad, w.grad], expected)
        w.grad = None


def test_refused_launches(calls: Calls) -> None:
    x = drawn(3, 8).requires_grad_()
    y = replayed_twice(x)
    broken = x.detach().clone()
    broken[0, 0] = torch.nan
    with pytest.raises(
        LaunchError, match="rms_norm: forward was not launched: the first element is no number"
    ):
        rms(broken.requires_grad_())
    with pytest.raises(LaunchError, match="backward was not launched"):
        y.backward(torch.full_like(y, torch.nan))
    torch.testing.assert_close(rms(x), rms_by_torch(x))


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
