"""Slips of places, indices and windows that the search spans, each on a reference of its own."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from .explaining import Slip, numbers

Tensor = torch.Tensor


def _curve(x: Tensor, curve: Tensor, bounded: bool = True) -> Tensor:
    place = (x + 1) * 3
    place = place.clamp(0, 6) if bounded else place
    left = place.floor().clamp(0, 5)
    t = place - left
    return curve[left.long()] * (1 - t) + curve[left.long() + 1] * t


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


def _levels(x: Tensor, channels_last: bool = False) -> Tensor:
    pooled = [F.adaptive_avg_pool2d(x, bins) for bins in (1, 2, 3)]
    return torch.cat([(p.movedim(1, 3) if channels_last else p).flatten(1) for p in pooled], 1)


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


PLACES = 8 * torch.rand(4, 9, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
WRONG: list[Any] = [
    pytest.param(
        Slip(
            _grouped,
            lambda x, w, b: _grouped(x, w, b, True),
            (numbers(2, 4, 9), numbers(6, 2, 3, seed=2), numbers(6)),
            "wrong-channel",
            "interleaved",
        ),
        id="groups that are interleaved",
    ),
    pytest.param(
        Slip(
            _deepwise,
            lambda x, w, b: _deepwise(x, w, b, True),
            (numbers(2, 3, 9), numbers(6, 1, 3, seed=2), numbers(6)),
            "bias-wrong-index",
            "input channel",
        ),
        id="the bias of the input channel",
    ),
    pytest.param(
        Slip(
            _largest,
            lambda x: _largest(x, True),
            (numbers(3, 7, 5),),
            "wrong-index-base",
            "flattened",
        ),
        id="the flat index of a maximum",
    ),
    pytest.param(
        Slip(
            _window,
            lambda x, y: _window(x, y, True),
            (numbers(9, 5), numbers(5, 9, seed=2)),
            "mask-shifted",
            "one side alone",
        ),
        id="a window to one side",
    ),
    pytest.param(
        Slip(
            _biased,
            lambda x, t: _biased(x, t, True),
            (numbers(9, 5), numbers(2, 7, seed=2)),
            "padding-mode",
            "with zero where clamp",
        ),
        id="nothing beyond a table's end",
    ),
    pytest.param(
        Slip(
            _peaks,
            lambda x: _peaks(x, True),
            (numbers(2, 3, 9),),
            "wrong-index-base",
            "start of the whole",
        ),
        id="places in the whole tensor",
    ),
    pytest.param(
        Slip(
            _curve,
            lambda x, c: _curve(x, c, False),
            (2 * numbers(6, 9), numbers(7, seed=2)),
            "clamp-missing",
            "clamp",
        ),
        id="places that go on past the ends",
    ),
    pytest.param(
        Slip(
            _grid,
            lambda x: _grid(x, True),
            (numbers(6, 20),),
            "coordinates-swapped",
            "exchanged",
        ),
        id="a row and a column",
    ),
    pytest.param(
        Slip(
            _sampled,
            lambda x, p: _sampled(x, p, False),
            (numbers(4, 10), PLACES),
            "interpolation-mode",
            "linear",
        ),
        id="a straight line for a cubic",
    ),
    pytest.param(
        Slip(
            _levels,
            lambda x: _levels(x, True),
            (numbers(2, 4, 6, 6),),
            "layout-misread",
            "dim 1 moved to 3",
        ),
        id="the layout of every level",
    ),
    pytest.param(
        Slip(
            _upconv,
            _upconv_unasked,
            (numbers(2, 3, 7), numbers(3, 4, 4, seed=2)),
            "stride-ignored",
            "stride divides the place",
        ),
        id="a transposed convolution that takes every place",
    ),
    pytest.param(
        Slip(
            lambda x, w: F.conv1d(x, w, padding=3, dilation=3),
            lambda x, w: F.conv1d(x, w, padding=1),
            (numbers(2, 3, 12), numbers(4, 3, 3, seed=2)),
            "dilation-ignored",
            "dilation 1",
        ),
        id="a dilation that is ignored, with the padding that goes with it",
    ),
]


@pytest.mark.parametrize("slip", WRONG)
def test_the_slip_is_found(slip: Slip) -> None:
    slip.check()
