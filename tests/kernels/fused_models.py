"""Models whose body is one line of a test, to be fused and compared with themselves."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

IDS = torch.tensor([[3, 0, 7, 1, 3], [2, 2, 0, 9, 8]])
Q = torch.linspace(-2, 3, 2 * 3 * 5 * 8).sin().view(2, 3, 5, 8)
K = torch.linspace(4, -1, 2 * 3 * 5 * 8).cos().view(2, 3, 5, 8)


class Holder(nn.Module):
    """Some parameters, and a body that is written in each test's line."""

    def __init__(self, body: Callable[..., Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body, self.scale = body, 8**-0.5
        self.table, self.places = nn.Embedding(10, 8, padding_idx=0), nn.Embedding(6, 8)
        self.norm, self.rms = nn.LayerNorm(8), nn.RMSNorm(8, 1e-5)
        self.softmax, self.near = nn.Softmax(-1), nn.Parameter(torch.randn(5, 5))
        self.register_buffer("ahead", torch.ones(5, 5, dtype=torch.bool).triu(1))
        self.register_buffer("below", torch.ones(8, 8).tril())
        self.register_buffer("speeds", 100.0 ** -torch.linspace(0, 1, 4))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


class OfIds(Holder):
    def forward(self, ids: torch.Tensor) -> Any:
        return self.body(self, ids)


class OfHeads(Holder):
    def forward(self, q: torch.Tensor, k: torch.Tensor) -> Any:
        return self.body(self, q, k)


def alike(model: nn.Module, native: nn.Module, *inputs: torch.Tensor) -> None:
    """Values and all gradients in float64, where both are exact but for summation orders."""
    steps = []
    for one in (model, native):
        leaves = [x.double().requires_grad_() if x.is_floating_point() else x for x in inputs]
        outputs = one.double()(*leaves)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        total = sum((output.pow(3).sum() for output in outputs), torch.zeros((), dtype=torch.float64))
        wanted = [*(leaf for leaf in leaves if leaf.requires_grad), *one.parameters()]
        steps.append([*outputs, *torch.autograd.grad(total, wanted, allow_unused=True)])
    torch.testing.assert_close(*steps)


def counted_calls(
    monkeypatch: pytest.MonkeyPatch, place: Any, name: str, function: Any
) -> list[dict[str, Any]]:
    """Options of the calls of the library's function that were made since."""
    seen: list[dict[str, Any]] = []

    def counted(*args: Any, **options: Any) -> Any:
        seen.append(options)
        return function(*args, **options)

    monkeypatch.setattr(place, name, counted)
    return seen
