"""Products that torch computes: which, with what gradients, and without an operator around."""

from typing import Any

import pytest
import torch

from agent.kernels import matmul_fp32x3, matmul_half, routing
from agent.kernels.matmul_fp32x3 import by_torch, product
from agent.kernels.matmul_fp32x3 import operator as products
from agent.kernels.matmul_half import operator as halves


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 5), (5, 4)),
        ((2, 3, 5), (2, 5, 4)),
        ((2, 3, 5), (5, 4)),
        ((6, 1, 3, 5), (2, 5, 4)),
        ((3, 5), (2, 5, 4)),
    ],
)
def test_the_sizes_of_a_step_are_those_of_its_gradients(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    found = []

    def multiplied(x: torch.Tensor, y: torch.Tensor, parts: product.Parts) -> torch.Tensor:
        *batch, m, n = product.shape_of(x, y)
        found.append((torch.Size(batch).numel(), m, n, x.shape[-1]))
        return x @ y

    tensors = (torch.randn(product.shape_of(torch.empty(a), torch.empty(b))), torch.randn(a), torch.randn(b))
    product.gradients(multiplied, tensors, [], 1.0, product.WHOLE, (True, True, False))
    forward, *others = by_torch.products_of(a, b, is_step=True)
    assert others == found
    assert by_torch.products_of(a, b, is_step=False) == (forward,)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_torch_computes_goes_through_no_operator(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator around it would cost the host several times what a small product takes."""
    module, function = (products, matmul_fp32x3) if dtype == torch.float32 else (halves, matmul_half)
    entered = []

    def operator(a: torch.Tensor, b: torch.Tensor, *others: Any) -> torch.Tensor:
        entered.append((*a.shape, b.shape[-1]))
        return a @ b

    monkeypatch.setattr(by_torch, "are_plain", lambda *_: True)
    monkeypatch.setattr(routing, "obstacle", lambda *_: None)
    monkeypatch.setattr(module, "_OPERATOR", operator)
    a, b, c = (torch.randn(size, dtype=dtype) for size in ((30, 50), (50, 40), (40,)))
    torch.testing.assert_close(function(a, b), a @ b, rtol=0, atol=0)
    close_to = (0.5 * (a.float() @ b.float()) + 2 * c.float()).to(dtype)
    torch.testing.assert_close(function(a, b, c, alpha=0.5, beta=2.0), close_to)
    assert entered == []
    few, odd = torch.randn(4, 2003, dtype=dtype), torch.randn(2003, 2001, dtype=dtype)
    function(few, odd)
    assert entered == []
    large = torch.randn(2003, 2003, dtype=dtype)
    function(large, odd)
    assert entered == [(2003, 2003, 2001)]


def test_a_step_is_left_to_torch_with_its_gradients_alone() -> None:
    """A gradient is a product of its own sizes, for which the tensor cores may be faster."""
    a, b = torch.Size((1024, 128)), torch.Size((128, 4096))
    assert not products._may_be_worth(a, b, False)
    assert products._may_be_worth(a, b, True)
    assert not products._may_be_worth(torch.Size((512, 512)), torch.Size((512, 512)), True)
