"""Slips of tiles, of what goes on from one step to the next, and of numbers that belong together."""

import math

import pytest
import torch
import torch.nn.functional as F

from .explaining import Slip, explained, numbers

Tensor = torch.Tensor
SEGMENTS = torch.tensor([0] * 5 + [1] * 9 + [3] * 2 + [4] * 16 + [5] * 8)


def _recurrence(decay: Tensor, x: Tensor, chunk: int = 64) -> Tensor:
    state, states = x.new_zeros(len(x)), []
    for step in range(x.shape[1]):
        state = x.new_zeros(len(x)) if step % chunk == 0 else state
        state = decay[:, step] * state + x[:, step]
        states.append(state)
    return torch.stack(states, 1)


def _attention(packed: Tensor, order: tuple[int, int, int] = (0, 1, 2)) -> Tensor:
    parts = packed.chunk(3, -1)
    q, k, v = (parts[place] for place in order)
    return (q @ k.transpose(-1, -2) / 2).softmax(-1) @ v


def _means(x: Tensor, segments: Tensor, counted: Tensor | None = None) -> Tensor:
    empty = x.new_zeros(6, x.shape[1])
    summed = empty.index_add(0, segments, x if counted is None else counted)
    return summed / empty.index_add(0, segments, torch.ones_like(x)).clamp_min(1)


def _means_without_last(x: Tensor, segments: Tensor) -> Tensor:
    last = torch.cat([segments[1:] != segments[:-1], torch.tensor([True])])
    return _means(x, segments, x.masked_fill(last.unsqueeze(1), 0.0))


def _counts(x: Tensor, dropped: bool = False) -> Tensor:
    place = ((x + 2) / 4 * 8).floor().long()
    inside = (place >= 0) & (place < 8)
    ones = torch.ones_like(x) * (inside if dropped else 1)
    return x.new_zeros(len(x), 8).scatter_add(1, place.clamp(0, 7), ones)


def _state(q: Tensor, k: Tensor, lengths: Tensor, tile: int = 64) -> Tensor:
    place, ends = torch.arange(k.shape[1]), lengths.unsqueeze(1)
    kept = (place < ends) & (place >= (ends - 1) // tile * tile)
    return q @ (k * kept.unsqueeze(2)).transpose(1, 2) @ k


def _step(p: Tensor, m: Tensor, v: Tensor, step: int = 3) -> Tensor:
    return p - 0.1 * (m / (1 - 0.9**step)) / ((v / (1 - 0.99**step)).sqrt() + 0.01)


def _similarity(a: Tensor, b: Tensor, first: float = 0.01, second: float = 0.09) -> Tensor:
    return (2 * a * b + first) * (a * b + second) / ((a * a + b * b + first) * (a * a + b * b + second))


def _hardest(d: Tensor, same: Tensor, easiest: bool = False) -> Tensor:
    return d.masked_fill(same, -1e9).amax(1) if easiest else d.masked_fill(same, 1e9).amin(1)


def _aligned(scores: Tensor, labels: Tensor) -> Tensor:
    frames, lengths = torch.full((6,), 4), torch.full((6,), 2)
    return F.ctc_loss(scores, labels, frames, lengths, blank=0, reduction="none")


def _aligned_to_the_last_label(scores: Tensor, labels: Tensor) -> Tensor:
    """Without the alignments whose last frame is blank."""
    only_blank = scores[-1:].index_fill(2, torch.arange(1, 3), -math.inf)
    blank = _aligned(torch.cat([scores[:-1], only_blank]), labels)
    return -((-_aligned(scores, labels)).exp() - (-blank).exp()).log()


def _halo(x: Tensor, w: Tensor) -> Tensor:
    return torch.cat([F.conv1d(part, w, padding=1) for part in torch.split(x, 16, -1)], -1)


SCORES = numbers(4, 6, 3).log_softmax(2)
LABELS = torch.tensor([[1, 2], [2, 1], [1, 1], [2, 1], [1, 2], [2, 2]])
SLIPS = {
    "chunks of a recurrence on their own": Slip(
        _recurrence, lambda a, x: _recurrence(a, x, 8), (numbers(5, 37).sigmoid(), numbers(5, 37, seed=2)),
        "scan-restarts", "every 8th step",
    ),
    "parts of one value exchanged": Slip(
        _attention, lambda x: _attention(x, (1, 0, 2)), (numbers(2, 7, 12),), "operands-swapped", "exchanged",
    ),
    "segments that end one early": Slip(
        _means, _means_without_last, (numbers(40, 6), SEGMENTS), "last-element-left-out", "segment",
    ),
    "what lies beyond the bounds is not counted": Slip(
        _counts, lambda x: _counts(x, True), (1.5 * numbers(9, 50),),
        "clamp-missing", "left out of scatter_add",
    ),
    "the last tile of each sample's own length": Slip(
        _state, lambda q, k, n: _state(q, k, n, 16),
        (numbers(2, 5, 4), numbers(2, 43, 4, seed=2), torch.tensor([43, 27])), "partial-sums-not-combined",
        "tiles of 16",
    ),
    "an accumulator that is not reset": Slip(
        lambda x, w: x @ w, lambda x, w: (x @ w).cumsum(1), (numbers(12, 40), numbers(40, 9, seed=2)),
        "scan-not-reset", "not reset",
    ),
    "zeros past the end in a softmax": Slip(
        lambda x: x.softmax(1), lambda x: F.pad(x, (0, 8)).softmax(1)[:, :40], (numbers(12, 40) - 1,),
        "wrong-fill-value", "zeros that count",
    ),
    "neighbours in the next tile": Slip(
        lambda x, w: F.conv1d(x, w, padding=1), _halo, (numbers(4, 1, 40), numbers(1, 1, 3, seed=2)),
        "lost-lanes", "halo",
    ),
    "corrections of a later step": Slip(
        _step, lambda p, m, v: _step(p, m, v, 4),
        (numbers(30), numbers(30, seed=2), numbers(30, seed=3).abs()), "index-off-by-one", "step 4 for 3",
    ),
    "two numbers exchanged": Slip(
        _similarity, lambda a, b: _similarity(a, b, 0.09, 0.01), (numbers(9, 9), numbers(9, 9, seed=2)),
        "wrong-coefficient", "exchanged",
    ),
    "the easiest for the hardest": Slip(
        _hardest, lambda d, same: _hardest(d, same, True), (numbers(17, 17).abs(), torch.eye(17).bool()),
        "max-for-min", "largest",
    ),
    "alignments that end in a label": Slip(
        _aligned, _aligned_to_the_last_label, (SCORES, LABELS), "operator-missing", "alone",
    ),
}  # fmt: skip


@pytest.mark.parametrize("slip", SLIPS.values(), ids=SLIPS)
def test_the_slip_is_found(slip: Slip) -> None:
    slip.check()


def test_a_mask_is_not_applied_whatever_stands_below_it() -> None:
    kept = torch.tensor([[True] * 20, [True] * 11 + [False] * 9])
    noise = numbers(2, 20, 4, seed=7)
    found = explained(
        lambda x, m: torch.tanh(x) * m.unsqueeze(2),
        lambda x, m: torch.where(m.unsqueeze(2), torch.tanh(x), noise),
        numbers(2, 20, 4),
        kept,
    )
    assert found.kind == "mask-ignored"
    assert "sets to 0" in found.message


def test_a_mask_that_goes_wrong_at_its_border_alone_is_not_called_ignored() -> None:
    kept = torch.tensor([[True] * 20, [True] * 11 + [False] * 9])
    noise = numbers(2, 20, 4, seed=7)
    border = kept.clone()
    border[1, 11:13] = True
    found = explained(
        lambda x, m: torch.tanh(x) * m.unsqueeze(2),
        lambda x, m: torch.where(m.unsqueeze(2), torch.tanh(x), noise * border.unsqueeze(2)),
        numbers(2, 20, 4),
        kept,
    )
    assert found.kind != "mask-ignored"
