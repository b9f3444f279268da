"""Connectionist temporal classification (CTC) loss from plain operators; torch runs it as one operator."""

import math
from typing import Any

import torch

Tensor = torch.Tensor


def loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
    zero_infinity: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the negative logarithm of the summed probability of all alignments, and an empty tensor.

    `log_probs` has shape (time, batch, classes).
    """
    frames, lengths = (_lengths(given, log_probs.device) for given in (input_lengths, target_lengths))
    labels = _padded(targets, lengths)
    states = torch.full((labels.shape[0], 2 * labels.shape[1] + 1), blank, device=labels.device)
    states[:, 1::2] = labels
    # A blank between two labels may be skipped, unless they are equal.
    skips = states[:, 2:] != states[:, :-2]
    skips = torch.nn.functional.pad(torch.logical_and(skips, states[:, 2:] != blank), (2, 0))
    never = log_probs.new_full((labels.shape[0], 1), -math.inf)
    begin = log_probs[0].gather(1, states[:, :2])
    sums = torch.cat([begin, never.expand(-1, states.shape[1] - 2)], 1)
    for step in range(1, log_probs.shape[0]):
        moved = torch.logaddexp(sums, torch.cat([never, sums[:, :-1]], 1))
        skipped = torch.cat([never, never, sums[:, :-2]], 1).masked_fill(skips.logical_not(), -math.inf)
        made = torch.logaddexp(moved, skipped) + log_probs[step].gather(1, states)
        sums = torch.where((step < frames).unsqueeze(1), made, sums)
    label = sums.gather(1, (2 * lengths - 1).clamp_min(0).unsqueeze(1))
    total = torch.logaddexp(sums.gather(1, (2 * lengths).unsqueeze(1)), label)
    return -total.squeeze(1), log_probs.new_empty(0)


def _lengths(given: Any, device: torch.device) -> Tensor:
    return given.to(device) if isinstance(given, Tensor) else torch.tensor(given, device=device)


def _padded(targets: Tensor, lengths: Tensor) -> Tensor:
    """Return the labels as padded rows; concatenated labels are split by `lengths` first."""
    if targets.dim() > 1:
        return targets
    return torch.nn.utils.rnn.pad_sequence(list(torch.split(targets, lengths.tolist())), batch_first=True)
