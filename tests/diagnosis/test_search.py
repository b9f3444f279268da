"""Classes of slips that the search spans, each on a reference and a wrong answer of its own."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from .explaining import explained, numbers

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


def _curve(x: Tensor, curve: Tensor, bounded: bool = True) -> Tensor:
    place = (x + 1) * 3
    place = place.clamp(0, 6) if bounded else place
    left = place.floor().clamp(0, 5)
    t = place - left
    return curve[left.long()] * (1 - t) + curve[left.long() + 1] * t


def _running_score(x: Tensor, less: int = 0) -> Tensor:
    n = torch.arange(1, x.shape[1] + 1, dtype=x.dtype)
    mean = x.cumsum(1) / n
    variance = (x * x).cumsum(1) / n - mean * mean
    if less:
        variance = variance * n / (n - less).clamp_min(1)
    return (x - mean) / (variance + 0.05).sqrt()


def _grid(x: Tensor, turned: bool = False) -> Tensor:
    place = torch.arange(x.shape[1])
    row, column = place // 5, place % 5
    row, column = (column, row) if turned else (row, column)
    return x * (0.3 * row).cos() + x.flip(1) * (0.7 * column).sin()


def _sampled(x: Tensor, places: Tensor, cubic: bool = True) -> Tensor:
    base = places.floor()
    t = places - base
    a, b, c, d = (x.gather(1, (base.long() + k).clamp(0, x.shape[1] - 1)) for k in (-1, 0, 1, 2))
    if not cubic:
        return b + t * (c - b)
    return b + 0.5 * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)))


def _angles(x: Tensor, base: float = 50.0) -> Tensor:
    rate = base ** (-torch.arange(x.shape[1], dtype=x.dtype) / x.shape[1])
    return (x * rate).cos()


def _levels(x: Tensor, channels_last: bool = False) -> Tensor:
    pooled = [F.adaptive_avg_pool2d(x, bins) for bins in (1, 2, 3)]
    return torch.cat([(p.movedim(1, 3) if channels_last else p).flatten(1) for p in pooled], 1)


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


def _upconv(x: Tensor, w: Tensor) -> Tensor:
    return F.conv_transpose1d(x, w, stride=2, padding=1)


def _upconv_unasked(x: Tensor, w: Tensor) -> Tensor:
    out = _upconv(x, w)
    made = torch.zeros_like(out)
    for place in range(out.shape[2]):
        for tap in range(w.shape[2]):
            source = place + 1 - tap
            if source >= 0 and source // 2 < x.shape[2]:
                made[:, :, place] += torch.einsum("bc,co->bo", x[:, :, source // 2], w[:, :, tap])
    return made


def _averages(x: Tensor, start: Tensor, before: bool = False) -> tuple[Tensor, Tensor]:
    state, seen = start, []
    for step in range(x.shape[1]):
        seen += [state] if before else []
        state = 0.8 * state + 0.2 * x[:, step]
        seen += [] if before else [state]
    return (x - torch.stack(seen, 1)).tanh(), state


def _window(x: Tensor, y: Tensor, back: bool = False) -> Tensor:
    place = torch.arange(x.shape[0])
    apart = place[:, None] - place[None, :]
    near = apart.abs() <= 3
    near = near & (apart >= 0) if back else near
    return torch.softmax((x @ y).masked_fill(~near, -torch.inf), -1)


def _biased(x: Tensor, table: Tensor, empty: bool = False) -> Tensor:
    place = torch.arange(x.shape[0])
    apart = place[:, None] - place[None, :]
    bias = table[:, apart.clamp(-3, 3) + 3]
    bias = bias.masked_fill(apart.abs() > 3, 0.0) if empty else bias
    return torch.softmax(x @ x.t() + bias, -1)


def _runs(x: Tensor, warp: int | None = None) -> Tensor:
    place = torch.arange(x.shape[1])
    turn = torch.cat([torch.ones_like(x[:, :1], dtype=torch.bool), x[:, 1:].sign() != x[:, :-1].sign()], 1)
    turn = turn | (place % warp == 0) if warp else turn
    return (place - torch.where(turn, place, 0).cummax(1).values).to(x.dtype)


def _scaled(x: Tensor, whole: bool = False) -> Tensor:
    return x / (x.square().sum().sqrt() if whole else x.abs().sum(1, keepdim=True))


def _peaks(x: Tensor, whole: bool = False) -> tuple[Tensor, Tensor]:
    values, places = F.max_pool1d(x, 3, return_indices=True)
    if whole:
        places = places + torch.arange(x.shape[0] * x.shape[1]).reshape(x.shape[0], -1, 1) * x.shape[2]
    return values.square(), places


def _grouped(x: Tensor, w: Tensor, b: Tensor, interleaved: bool = False) -> Tensor:
    if not interleaved:
        return F.conv1d(x, w, b, groups=2)
    parts = [F.conv1d(x.chunk(2, 1)[o % 2], w[o : o + 1], b[o : o + 1]) for o in range(len(w))]
    return torch.cat(parts, 1)


def _deepwise(x: Tensor, w: Tensor, b: Tensor, of_input: bool = False) -> Tensor:
    y = F.conv1d(x, w, None if of_input else b, groups=x.shape[1])
    return y + b[torch.arange(len(w)) // 2].reshape(1, -1, 1) if of_input else y


def _largest(x: Tensor, flat: bool = False) -> tuple[Tensor, Tensor]:
    values, at = x.max(1)
    return values, at * x.shape[2] + torch.arange(x.shape[2]) if flat else at


def _tail_lost(x: Tensor) -> Tensor:
    y = x.sin() / 3**0.5
    y[:, 8:] = 0
    return y


PLACES = 8 * torch.rand(4, 9, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
KEYS = (numbers(7, 6), numbers(11, 6, seed=2), numbers(11, 5, seed=3))
CODES = torch.randint(0, 16, (6, 9), generator=torch.Generator().manual_seed(7))
ZEROS = torch.tensor([5.0, 9.0, 7.0, 10.0, 8.0, 6.0], dtype=torch.float64)
STATISTICS = (numbers(4, 5, 7), numbers(5, seed=2), numbers(5, seed=3).abs() + 0.3, numbers(5, seed=4))
WRONG: list[Any] = [
    pytest.param(
        _grouped,
        lambda x, w, b: _grouped(x, w, b, True),
        (numbers(2, 4, 9), numbers(6, 2, 3, seed=2), numbers(6)),
        "wrong-channel",
        "interleaved",
        "",
        id="groups that are interleaved",
    ),
    pytest.param(
        _deepwise,
        lambda x, w, b: _deepwise(x, w, b, True),
        (numbers(2, 3, 9), numbers(6, 1, 3, seed=2), numbers(6)),
        "bias-wrong-index",
        "input channel",
        "",
        id="the bias of the input channel",
    ),
    pytest.param(
        _largest,
        lambda x: _largest(x, True),
        (numbers(3, 7, 5),),
        "wrong-index-base",
        "flattened",
        "",
        id="the flat index of a maximum",
    ),
    pytest.param(
        _averages,
        lambda x, s: _averages(x, s, True),
        (numbers(3, 12), numbers(3, seed=2)),
        "state-order",
        "before its update",
        "",
        id="states of a loop that are read too early",
    ),
    pytest.param(
        _window,
        lambda x, y: _window(x, y, True),
        (numbers(9, 5), numbers(5, 9, seed=2)),
        "mask-shifted",
        "one side alone",
        "",
        id="a window to one side",
    ),
    pytest.param(
        _biased,
        lambda x, t: _biased(x, t, True),
        (numbers(9, 5), numbers(2, 7, seed=2)),
        "padding-mode",
        "with zero where clamp",
        "",
        id="nothing beyond a table's end",
    ),
    pytest.param(
        _runs,
        lambda x: _runs(x, 16),
        (numbers(6, 70) + 1.2,),
        "scan-restarts",
        "tile (warp) of 16",
        "",
        id="runs that begin anew with each tile",
    ),
    pytest.param(
        _scaled,
        lambda x: _scaled(x, True),
        (numbers(6, 9),),
        "wrong-divisor",
        "root of the sum of squares",
        "",
        id="another norm of what is divided",
    ),
    pytest.param(
        _peaks,
        lambda x: _peaks(x, True),
        (numbers(2, 3, 9),),
        "wrong-index-base",
        "start of the whole",
        "",
        id="places in the whole tensor",
    ),
    pytest.param(
        lambda x, w: x @ w.to(x.dtype),
        lambda x, w: x @ torch.where(w < 0, w.to(x.dtype) + 256, w.to(x.dtype)),
        (numbers(5, 6), (60 * numbers(6, 4, seed=2)).to(torch.int8)),
        "bits-compared",
        "unsigned",
        "",
        id="signed bytes without their sign",
    ),
    pytest.param(
        _attention,
        _values_not_rescaled,
        KEYS,
        "rescale-missing",
        "the weighted values",
        "",
        id="values of an online softmax",
    ),
    pytest.param(
        _attention,
        _lanes_not_rescaled,
        KEYS,
        "rescale-missing",
        "4 lanes",
        "",
        id="lanes that are combined without their maxima",
    ),
    pytest.param(
        _curve,
        lambda x, c: _curve(x, c, False),
        (2 * numbers(6, 9), numbers(7, seed=2)),
        "clamp-missing",
        "clamp",
        "",
        id="places that go on past the ends",
    ),
    pytest.param(
        _running_score,
        lambda x: _running_score(x, 1),
        (numbers(6, 12),),
        "unbiased-variance",
        "n - 1",
        "",
        id="a running variance with n - 1",
    ),
    pytest.param(
        _grid,
        lambda x: _grid(x, True),
        (numbers(6, 20),),
        "coordinates-swapped",
        "exchanged",
        "",
        id="a row and a column",
    ),
    pytest.param(
        _sampled,
        lambda x, p: _sampled(x, p, False),
        (numbers(4, 10), PLACES),
        "interpolation-mode",
        "linear",
        "",
        id="a straight line for a cubic",
    ),
    pytest.param(
        _angles,
        lambda x: _angles(x, 10000.0),
        (numbers(6, 8),),
        "wrong-coefficient",
        "10000",
        "",
        id="the usual base of an angle",
    ),
    pytest.param(
        _levels,
        lambda x: _levels(x, True),
        (numbers(2, 4, 6, 6),),
        "layout-misread",
        "dim 1 moved to 3",
        "",
        id="the layout of every level",
    ),
    pytest.param(
        _both_ways,
        lambda x: _both_ways(x, 32),
        (numbers(4, 45),),
        "partial-sums-not-combined",
        "in all 2",
        SHUFFLES,
        id="the first warp alone in two sums",
    ),
    pytest.param(
        _contrast,
        lambda a, b: _contrast(a, b, False),
        (numbers(8, 5), numbers(8, 5, seed=2)),
        "mask-wrong-place",
        "diagonal",
        "",
        id="a pair with itself left out",
    ),
    pytest.param(
        _normed,
        _mean_unscaled,
        STATISTICS,
        "scale-missing",
        "mean subtracted after",
        "",
        id="a folded shift without its scale",
    ),
    pytest.param(
        _dequantised,
        lambda c, s, z: _dequantised(c, s, z, True),
        (CODES, numbers(6, seed=2), ZEROS),
        "wrong-coefficient",
        "number 8",
        "int zero = 8;",
        id="a number for an operand",
    ),
    pytest.param(
        _upconv,
        _upconv_unasked,
        (numbers(2, 3, 7), numbers(3, 4, 4, seed=2)),
        "stride-ignored",
        "stride divides the place",
        "",
        id="a transposed convolution that takes every place",
    ),
    pytest.param(
        lambda x, w: F.conv1d(x, w, padding=3, dilation=3),
        lambda x, w: F.conv1d(x, w, padding=1),
        (numbers(2, 3, 12), numbers(4, 3, 3, seed=2)),
        "dilation-ignored",
        "dilation 1",
        "",
        id="a dilation that is ignored, with the padding that goes with it",
    ),
]


@pytest.mark.parametrize(("right", "wrong", "inputs", "kind", "said", "source"), WRONG)
def test_the_slip_is_found(
    right: Callable[..., Tensor],
    wrong: Callable[..., Tensor],
    inputs: tuple[Tensor, ...],
    kind: str,
    said: str,
    source: str,
) -> None:
    found = explained(right, wrong, *inputs, source=source)
    assert found.kind == kind, found.message
    assert said in found.message


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


def test_what_is_tried_writes_to_nothing_that_others_read() -> None:
    """Statistics of training would stand in the buffers of the reference ever after."""
    x, mean, var, weight = STATISTICS
    before = mean.clone(), var.clone()
    noise = numbers(4, 5, 7, seed=9)
    found = explained(_normed, lambda *given: _normed(*given) + noise.sin(), x, mean, var, weight)
    assert found.kind == "unknown-cause", found.message
    assert torch.equal(mean, before[0])
    assert torch.equal(var, before[1])
