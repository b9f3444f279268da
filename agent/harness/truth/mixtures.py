"""Floating-point inputs whose slices come from different families, and inputs on both sides of thresholds.

A kernel that samples a few elements to recognise a family learns nothing about the other slices.
"""

from typing import NamedTuple

import torch

from agent.harness.truth.usage import FloatUse

PLANTED = 0.25
"""Share of the elements that are set to a threshold or a value near it."""
NON_FINITE = 1 / 32
"""Share of the elements that become NaN or infinite, if the reference handles these."""
FAR = (0.5, 0.984375, 1.015625, 2.0)
"""Factors by which a threshold is multiplied for values at some distance from it."""


class Reach(NamedTuple):
    """Strength of a mixture: ranges of its random scales and shifts."""

    powers: tuple[int, ...]
    """Powers of two by which slices are scaled."""
    shifts: tuple[int, ...]
    """Numbers of standard deviations by which slices are shifted."""
    outliers: tuple[int, ...]
    """Powers of two by which single elements are scaled."""


REACHES = {
    "mixed": Reach((60, 40, 24, 12, 5, -5, -12, -24), (1024, 256, 32, -32), (20, 12, 5)),
    "mixed within 2^12": Reach((12, 8, 5, -5, -12, -20), (512, 128, 32, -32), (12, 8, 5)),
    "mixed within 2^5": Reach((5, 3, 1, -3, -5), (8, 3, -3), (5, 3, 1)),
}
"""Mixtures by name, the strongest first."""
EDGED = {"edges": True, "finite edges": False}
"""Families of thresholds, with True if they also have NaN and infinities."""
UNKNOWN = FloatUse([], [], False, True, False)
"""Assumed use of an input whose reference cannot be traced."""
_UNIFORM = Reach((0,), (0,), (3, 1))
"""Reach for an operand of a matrix product, whose rows keep one scale.

Algorithms that add rows of an operand, such as Strassen's, have errors in proportion to the largest row.
"""


def derived(x: torch.Tensor, use: FloatUse, family: str, seed: int) -> torch.Tensor | None:
    """Return the tensor as the family changes it, or None if there is no threshold to place.

    Stated NaN and infinities stay.
    """
    generator = torch.Generator(x.device).manual_seed(seed)
    if family in EDGED:
        return edged(x, use, EDGED[family], generator)
    new = mixed(x, use, family, generator)
    return torch.where(torch.isfinite(x) & torch.isfinite(new), new, x)


def mixed(x: torch.Tensor, use: FloatUse, name: str, generator: torch.Generator) -> torch.Tensor:
    """Change each slice of the first dimension in a random way, such as scaled, shifted or sparse."""
    reach = _UNIFORM if use.is_multiplied else REACHES[name]
    rows = x.reshape(x.shape[0], -1) if x.dim() > 1 else _blocks(x)
    count, width = rows.shape
    finite = torch.where(torch.isfinite(rows), rows, 0)
    deviation = finite.double().std(correction=0).to(x.dtype)
    kind = torch.randint(8, (count, 1), generator=generator, device=x.device)
    if count >= 8:
        kind[torch.randperm(count, generator=generator, device=x.device)[:8], 0] = torch.arange(
            8, device=x.device
        )
    scaled = rows * 2.0 ** _drawn(reach.powers, (count, 1), generator, x)
    shifted = rows + deviation * _drawn(reach.shifts, (count, 1), generator, x)
    stands_out = torch.rand(rows.shape, generator=generator, device=x.device) < 1 / 64
    stands_out[:, : width // 4] = False
    outliers = torch.where(stands_out, rows * 2.0 ** _drawn(reach.outliers, rows.shape, generator, x), rows)
    sparse = torch.where(torch.rand(rows.shape, generator=generator, device=x.device) < 0.1, rows, 0)
    step = (deviation / 2).clamp_min(torch.finfo(x.dtype).tiny)
    tied = (rows / step).round() * step
    changes = {2: shifted, 3: outliers, 4: sparse, 5: -(rows.abs() + deviation), 6: tied}
    new = torch.where(kind <= 1, scaled, rows)
    for number, change in changes.items():
        new = torch.where(kind == number, change, new)
    return new.reshape(-1)[: x.numel()].reshape(x.shape).to(x.dtype)


def _blocks(x: torch.Tensor) -> torch.Tensor:
    """Return a vector as up to eight rows, the last one padded."""
    flat = x.reshape(-1)
    width = max(-(-flat.numel() // 8), 1)
    return torch.nn.functional.pad(flat, (0, -flat.numel() % width)).reshape(-1, width)


def _drawn(
    choices: tuple[int, ...],
    shape: tuple[int, ...] | torch.Size,
    generator: torch.Generator,
    like: torch.Tensor,
) -> torch.Tensor:
    numbers = torch.tensor(choices, dtype=torch.float32, device=like.device)
    return numbers[torch.randint(len(choices), shape, generator=generator, device=like.device)]


def edged(
    x: torch.Tensor, use: FloatUse, non_finite: bool, generator: torch.Generator
) -> torch.Tensor | None:
    """Set some elements to thresholds of the reference and values near them, or return None without any."""
    pool = _pool(x, use)
    if non_finite and use.takes_non_finite:
        odd = torch.tensor([torch.nan, torch.inf, -torch.inf], dtype=x.dtype, device=x.device)
    else:
        odd = torch.zeros(0, dtype=x.dtype, device=x.device)
    if not pool.numel() and not odd.numel():
        return None
    new = x
    for share, values in ((PLANTED, pool), (NON_FINITE, odd)):
        if values.numel():
            drawn = values[torch.randint(values.numel(), x.shape, generator=generator, device=x.device)]
            new = torch.where(torch.rand(x.shape, generator=generator, device=x.device) < share, drawn, new)
    return new


def _pool(x: torch.Tensor, use: FloatUse) -> torch.Tensor:
    """Return thresholds and values near them, in the dtype of `x`.

    Each value is on the same side of its threshold in float32 and in float64.
    """
    parts = []
    if use.exact:
        wide = torch.cat(use.exact)
        wide = wide[torch.isfinite(wide)]
        near = wide.to(x.dtype)
        below, above = _beside(near, -1), _beside(near, 1)
        # A threshold itself is used only if the dtype holds it exactly, as in float64.
        parts += [near[near.double() == wide], below, above]
        parts += [(wide * factor).to(x.dtype) for factor in FAR]
    if use.mapped:
        wide = torch.tensor(use.mapped, dtype=torch.float64)
        parts += [(wide * factor).to(x.dtype) for factor in FAR]
    if use.is_stepped:
        parts.append((torch.arange(-64, 65) / 2).to(x.dtype))
    values = torch.cat(parts) if parts else torch.zeros(0, dtype=x.dtype)
    return values[torch.isfinite(values)].to(x.device)


def _beside(values: torch.Tensor, sign: int) -> torch.Tensor:
    """Return numbers two eps above `values` (`sign` 1) or below them (-1)."""
    info = torch.finfo(values.dtype)
    wide = values.double()
    return torch.where(wide == 0, sign * info.tiny, wide + sign * 2 * info.eps * wide.abs()).to(values.dtype)
