"""Mutations of tiles: rows of uneven length lose tiles, and accumulators are not reset between results."""

from collections.abc import Iterator

import torch

from agent.diagnosis.mutations.groups import MADE, STILL, Group, Groups, variant
from agent.diagnosis.wrong_references.rules import USUAL_BLOCKS, Facts, Variant

Tensor = torch.Tensor
LOWEST = -1e4
"""Maximum fill value at the end of rows of scores; other values are padded with zeros."""


_SUMS = frozenset({"sum", "mean", "mm", "bmm", "addmm", "linalg_vector_norm", "convolution", "dot", "mv"})
_EXTREMES = frozenset({"amax"})


def mutate(groups: Groups, facts: Facts) -> Iterator[Variant]:
    """Yield variants that keep only some tiles of each sample's length, or do not reset an accumulator."""
    for group in groups.computing():
        value = group.first.result
        if not isinstance(value, Tensor) or not value.is_floating_point() or len(group.calls) > 1:
            continue
        if group.name in _SUMS | _EXTREMES:
            yield from _not_reset(group, value)
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
                    (
                        place >= last,
                        "partial-sums-not-combined",
                        "of the last tile (block) alone, earlier ones lost",
                    ),
                    (
                        place < lengths // block * block,
                        "lost-last-block",
                        "without what follows the last full tile",
                    ),
                    ((place < block) & (lengths > 0), "lost-last-block", "of the first tile (block) alone"),
                ):
                    shape = [n if k in (0, axis) else 1 for k, n in enumerate(value.shape)]
                    mask = kept.reshape(shape)
                    words = f"with the result of {group.label} along dim {axis}, up to each sample's length, "
                    words += f"{said}: tiles of {block}"
                    hidden = lambda t, m=mask, f=fill: torch.where(m, t, f)  # noqa: E731
                    yield variant(kind, words, group.result(hidden), 5)


def _not_reset(group: Group, value: Tensor) -> Iterator[Variant]:
    """Yield variants whose accumulator continues from the previous result or the result one block earlier."""
    for axis in [axis for axis in range(value.dim()) if value.shape[axis] > 1]:
        size = value.shape[axis]
        for step in [1, *(block for block in USUAL_BLOCKS if block < size)]:
            words = f"with each result of {group.label} along dim {axis} going on from the one "
            words += f"{step} before: the accumulator is not reset (set back)"
            going_on = lambda t, a=axis, s=step: _going_on(t, a, s, group.name in _EXTREMES)  # noqa: E731
            yield variant("scan-not-reset", words, group.result(going_on), 6)


def _going_on(t: Tensor, axis: int, step: int, extreme: bool) -> Tensor:
    size = t.shape[axis]
    rows = t.movedim(axis, -1)
    rows = torch.nn.functional.pad(rows, (0, -size % step))
    rows = rows.reshape(*rows.shape[:-1], -1, step)
    made = rows.cummax(-2)[0] if extreme else rows.cumsum(-2)
    joined: Tensor = made.flatten(-2)[..., :size].movedim(-1, axis)
    return joined


def _lengths(value: Tensor, axis: int) -> tuple[float, Tensor] | None:
    """Return the fill value and each sample's length along the dim; None if all samples fill the dim."""
    low = float(value.min())
    fill = low if low <= LOWEST else 0.0
    rest = [k for k in range(value.dim()) if k not in (0, axis)]
    held = (value != fill).any(dim=rest) if rest else value != fill
    places = torch.arange(1, value.shape[axis] + 1, device=value.device)
    lengths = (held * places).amax(1, keepdim=True)
    uneven = bool((lengths < value.shape[axis]).any()) and int(lengths.max()) > 0
    return (fill, lengths) if uneven else None
