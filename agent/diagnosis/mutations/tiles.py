"""Tiles of rows that end early: padded to the longest, and not all of one length."""

from collections.abc import Iterator

import torch

from agent.diagnosis.mutations.groups import MADE, STILL, Groups, variant
from agent.diagnosis.wrong_references.rules import USUAL_BLOCKS, Facts, Variant

Tensor = torch.Tensor
LOWEST = -1e4
"""What fills the end of rows of scores is at most this; anything else is filled up with zeros."""


def of(groups: Groups, facts: Facts) -> Iterator[Variant]:
    """What each sample has up to its own length, the last tile of it alone or without the last one."""
    for group in groups.computing():
        value = group.first.result
        if not isinstance(value, Tensor) or not value.is_floating_point() or len(group.calls) > 1:
            continue
        if group.name in MADE or group.name in STILL or group.name not in ("mul", "masked_fill", "where"):
            continue
        for axis in range(1, value.dim()):
            found = _lengths(value, axis)
            if found is None:
                continue
            fill, lengths = found
            place = torch.arange(value.shape[axis], device=value.device)
            for block in [block for block in USUAL_BLOCKS if block < int(lengths.max())]:
                last = (lengths - 1).clamp_min(0) // block * block
                for kept, kind, said in (
                    (place >= last, "partial-sums-not-combined", "of the last tile (block) alone, earlier ones lost"),
                    (place < lengths // block * block, "lost-last-block", "without what follows the last full tile"),
                    ((place < block) & (lengths > 0), "lost-last-block", "of the first tile (block) alone"),
                ):
                    shape = [n if k in (0, axis) else 1 for k, n in enumerate(value.shape)]
                    mask = kept.reshape(shape)
                    words = f"with the result of {group.label} along dim {axis}, up to each sample's length, "
                    words += f"{said}: tiles of {block}"
                    hidden = lambda t, m=mask, f=fill: torch.where(m, t, f)  # noqa: E731
                    yield variant(kind, words, group.result(hidden), 5)


def _lengths(value: Tensor, axis: int) -> tuple[float, Tensor] | None:
    """What fills the ends, and how far each sample goes along the dim; None where all go to the end."""
    low = float(value.min())
    fill = low if low <= LOWEST else 0.0
    rest = [k for k in range(value.dim()) if k not in (0, axis)]
    held = (value != fill).any(dim=rest) if rest else value != fill
    places = torch.arange(1, value.shape[axis] + 1, device=value.device)
    lengths = (held * places).amax(1, keepdim=True)
    uneven = bool((lengths < value.shape[axis]).any()) and int(lengths.max()) > 0
    return (fill, lengths) if uneven else None
