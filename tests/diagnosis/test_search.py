"""Slips of values, sums and states that the search spans, each on a reference of its own."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from .explaining import Slip, explained, numbers

Tensor = torch.Tensor
SHUFFLES = "for (int o = 16; o; o >>= 1) v += __shfl_down_sync(~0u, v, o); f<<<1, 64>>>"


def _attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(3 * q @ k.t(), -1) @ v


def _values_not_rescaled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = 3 * q @ k.t()
    stale = (scores - scores.cummax(-1)[0]).exp()
    return stale @ v / (scores - scores.amax(-1, keepdim=True)).exp().sum(-1, keepdim=True)


def _lanes_not_rescaled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = 3 * q @ k.t()
    lanes = torch.arange(scores.shape[-1]) % 4
    known = torch.stack([scores[:, lanes == lane].amax(-1) for lane in range(4)], -1)[:, lanes]
    stale = (scores - known).exp()
    return stale @ v / stale.sum(-1, keepdim=True)


def _running_score(x: Tensor, less: int = 0) -> Tensor:
    n = torch.arange(1, x.shape[1] + 1, dtype=x.dtype)
    mean = x.cumsum(1) / n
    variance = (x * x).cumsum(1) / n - mean * mean
    if less:
        variance = variance * n / (n - less).clamp_min(1)
    return (x - mean) / (variance + 0.05).sqrt()


def _angles(x: Tensor, base: float = 50.0) -> Tensor:
    rate = base ** (-torch.arange(x.shape[1], dtype=x.dtype) / x.shape[1])
    return (x * rate).cos()


def _both_ways(x: Tensor, first: int | None = None) -> Tensor:
    distances = x.unsqueeze(2).sub(x.unsqueeze(1)).abs() + 0.1 * x.unsqueeze(2)
    rows, columns = distances.amax(1)[:, :first], distances.amin(2)[:, :first]
    return (rows.sum(1) + 2 * columns.sum(1)) / x.shape[1]


def _contrast(a: Tensor, b: Tensor, own: bool = True) -> Tensor:
    scores = a @ b.t()
    among = scores if own else scores.masked_fill(torch.eye(len(a), dtype=torch.bool), -torch.inf)
    return torch.logsumexp(among, 1) - scores.diagonal()


def _normed(x: Tensor, mean: Tensor, var: Tensor, weight: Tensor) -> Tensor:
    return F.batch_norm(x, mean, var, weight, mean.flip(0), False, 0.0, 1e-3)


def _mean_unscaled(x: Tensor, mean: Tensor, var: Tensor, weight: Tensor) -> Tensor:
    shape = (1, -1, 1)
    scale = (weight / (var + 1e-3).sqrt()).reshape(shape)
    return x * scale + (mean.flip(0) - mean).reshape(shape)


def _dequantised(codes: Tensor, scale: Tensor, zero: Tensor, fixed: bool = False) -> Tensor:
    zero = torch.full_like(zero, 8.0) if fixed else zero
    return (codes.to(scale.dtype) - zero[:, None]) * scale[:, None]


def _averages(x: Tensor, start: Tensor, before: bool = False) -> tuple[Tensor, Tensor]:
    state, seen = start, []
    for step in range(x.shape[1]):
        seen += [state] if before else []
        state = 0.8 * state + 0.2 * x[:, step]
        seen += [] if before else [state]
    return (x - torch.stack(seen, 1)).tanh(), state


def _runs(x: Tensor, warp: int | None = None) -> Tensor:
    place = torch.arange(x.shape[1])
    turn = torch.cat([torch.ones_like(x[:, :1], dtype=torch.bool), x[:, 1:].sign() != x[:, :-1].sign()], 1)
    turn = turn | (place % warp == 0) if warp else turn
    return (place - torch.where(turn, place, 0).cummax(1).values).to(x.dtype)


def _scaled(x: Tensor, whole: bool = False) -> Tensor:
    return x / (x.square().sum().sqrt() if whole else x.abs().sum(1, keepdim=True))


KEYS = (numbers(7, 6), numbers(11, 6, seed=2), numbers(11, 5, seed=3))
CODES = torch.randint(0, 16, (6, 9), generator=torch.Generator().manual_seed(7))
ZEROS = torch.tensor([5.0, 9.0, 7.0, 10.0, 8.0, 6.0], dtype=torch.float64)
STATISTICS = (numbers(4, 5, 7), numbers(5, seed=2), numbers(5, seed=3).abs() + 0.3, numbers(5, seed=4))
WRONG: list[Any] = [
    pytest.param(
        Slip(
            _averages,
            lambda x, s: _averages(x, s, True),
            (numbers(3, 12), numbers(3, seed=2)),
            "state-order",
            "before its update",
        ),
        id="states of a loop that are read too early",
    ),
    pytest.param(
        Slip(
            _runs,
            lambda x: _runs(x, 16),
            (numbers(6, 70) + 1.2,),
            "scan-restarts",
            "tile (warp) of 16",
        ),
        id="runs that begin anew with each tile",
    ),
    pytest.param(
        Slip(
            _scaled,
            lambda x: _scaled(x, True),
            (numbers(6, 9),),
            "wrong-divisor",
            "root of the sum of squares",
        ),
        id="another norm of what is divided",
    ),
    pytest.param(
        Slip(
            lambda x, w: x @ w.to(x.dtype),
            lambda x, w: x @ torch.where(w < 0, w.to(x.dtype) + 256, w.to(x.dtype)),
            (numbers(5, 6), (60 * numbers(6, 4, seed=2)).to(torch.int8)),
            "bits-compared",
            "unsigned",
        ),
        id="signed bytes without their sign",
    ),
    pytest.param(
        Slip(
            _attention,
            _values_not_rescaled,
            KEYS,
            "rescale-missing",
            "the weighted values",
        ),
        id="values of an online softmax",
    ),
    pytest.param(
        Slip(
            _attention,
            _lanes_not_rescaled,
            KEYS,
            "rescale-missing",
            "4 lanes",
        ),
        id="lanes that are combined without their maxima",
    ),
    pytest.param(
        Slip(
            _running_score,
            lambda x: _running_score(x, 1),
            (numbers(6, 12),),
            "unbiased-variance",
            "n - 1",
        ),
        id="a running variance with n - 1",
    ),
    pytest.param(
        Slip(
            _angles,
            lambda x: _angles(x, 10000.0),
            (numbers(6, 8),),
            "wrong-coefficient",
            "10000",
        ),
        id="the usual base of an angle",
    ),
    pytest.param(
        Slip(
            _both_ways,
            lambda x: _both_ways(x, 32),
            (numbers(4, 45),),
            "partial-sums-not-combined",
            "in all 2",
            SHUFFLES,
        ),
        id="the first warp alone in two sums",
    ),
    pytest.param(
        Slip(
            _contrast,
            lambda a, b: _contrast(a, b, False),
            (numbers(8, 5), numbers(8, 5, seed=2)),
            "mask-wrong-place",
            "diagonal",
        ),
        id="a pair with itself left out",
    ),
    pytest.param(
        Slip(
            _normed,
            _mean_unscaled,
            STATISTICS,
            "scale-missing",
            "mean subtracted after",
        ),
        id="a folded shift without its scale",
    ),
    pytest.param(
        Slip(
            _dequantised,
            lambda c, s, z: _dequantised(c, s, z, True),
            (CODES, numbers(6, seed=2), ZEROS),
            "wrong-coefficient",
            "number 8",
            "int zero = 8;",
        ),
        id="a number for an operand",
    ),
]


@pytest.mark.parametrize("slip", WRONG)
def test_the_slip_is_found(slip: Slip) -> None:
    slip.check()


def test_what_is_tried_writes_to_nothing_that_others_read() -> None:
    """Statistics of training would stand in the buffers of the reference ever after."""
    x, mean, var, weight = STATISTICS
    before = mean.clone(), var.clone()
    noise = numbers(4, 5, 7, seed=9)
    found = explained(_normed, lambda *given: _normed(*given) + noise.sin(), x, mean, var, weight)
    assert found.kind == "unknown-cause", found.message
    assert torch.equal(mean, before[0])
    assert torch.equal(var, before[1])
