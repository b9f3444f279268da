"""Nodes of autograd that replay: what torch promises of any node holds for them."""

from typing import Any

import pytest
import torch
from kernels.replaying_calls import Call, Calls, assert_alike, drawn, rms, rms_by_torch
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

from agent.kernels.add_rms_norm.operator import add_rms_norm
from agent.kernels.binding import LaunchError
from agent.kernels.softmax.operator import softmax


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
