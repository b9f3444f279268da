"""Two slips in one wrong answer, each pair on a reference of its own."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from .explaining import explained, numbers

Tensor = torch.Tensor


def _tail_lost(x: Tensor) -> Tensor:
    y = x.sin() / 3**0.5
    y[:, 8:] = 0
    return y


def _unit(x: Tensor, scale: Tensor, halves: bool = False, plus: float = 1.0) -> Tensor:
    gate, value = x.chunk(2, 1) if halves else (x[:, 0::2], x[:, 1::2])
    return (gate * torch.sigmoid(1.7 * gate)) * (value.clamp(-2, 2) + plus) * scale


def _sloped(x: Tensor, slope: Tensor, one: Tensor, other: Tensor) -> Tensor:
    y = x * one[:, None] + other[:, None]
    return torch.where(y > 0, y, y * slope[:, None])


TWO: list[Any] = [
    pytest.param(
        lambda x: x.sin() / 3,
        _tail_lost,
        (numbers(6, 10),),
        ("root of 3", "never written"),
        id="a tail that is lost, and another divisor",
    ),
    pytest.param(
        _unit,
        lambda x, s: _unit(x, s, True, 0.0),
        (numbers(6, 12), numbers(6, seed=2)),
        ("halves|interleaved|every other", "1 not added"),
        id="neither explains a part alone",
    ),
    pytest.param(
        _sloped,
        lambda x, s, a, b: _sloped(x, s[:1].expand_as(s), b, a),
        (numbers(5, 9), numbers(5, seed=2).abs(), numbers(5, seed=3), numbers(5, seed=4)),
        ("swapped|exchanged", "first"),
        id="the one decides where the other shows",
    ),
    pytest.param(
        lambda x, y: torch.tril(F.elu(x) @ F.elu(y).t()) @ y,
        lambda x, y: (x.relu() @ y.relu().t()) @ y,
        (numbers(8, 6), numbers(8, 6, seed=2)),
        ("without tril|nothing is masked", "relu"),
        id="a mask and two activations",
    ),
]


@pytest.mark.parametrize(("right", "wrong", "inputs", "both"), TWO)
def test_two_slips_are_found_together(
    right: Callable[..., Tensor],
    wrong: Callable[..., Tensor],
    inputs: tuple[Tensor, ...],
    both: tuple[str, str],
) -> None:
    message = explained(right, wrong, *inputs).message
    for words in both:
        assert any(word in message for word in words.split("|")), message
