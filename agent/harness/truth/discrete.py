"""New values for integers, booleans, masks and Python scalars, within the range that the reference accepts.

Values of the family `redrawn` stay in the stated range. Those of `ragged` are skewed, or constant within a
row of the tensor. Those of `wide` have every magnitude of the dtype. Sorted rows stay sorted, permutations
stay permutations, and tensors of two values keep these values.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from agent.harness.truth.usage import IntegerUse

VARIANTS = {"redrawn": ("redrawn",), "ragged": ("ragged", "runs"), "wide": ("wide", "signed")}
"""Variants of a value that each family tries, strongest first."""
LEAST_MASK = 8
"""Minimum number of elements for a tensor of two values to count as a mask."""
MOST_BITS = 62
"""Maximum number of magnitude bits of an integer in the family `wide`."""
DENSITIES = (0.03, 0.25, 0.5, 0.75, 0.97)
_UNCHANGED = "the reference takes no other values"


def is_discrete(value: Any) -> bool:
    """Return True for a value that the families of this module vary."""
    if isinstance(value, torch.Tensor):
        return not value.is_complex() and value.numel() > 0 and (_is_integer(value) or is_mask(value))
    return isinstance(value, (bool, int, float))


def places(inputs: Any) -> list[int]:
    """Return the indices of the discrete values among the flattened inputs."""
    return [number for number, value in enumerate(tree_flatten(inputs)[0]) if is_discrete(value)]


def described(inputs: Any, number: int) -> str:
    """Return the name of flattened input `number` for a verdict's scope, such as "input 1 (int64)"."""
    value = tree_flatten(inputs)[0][number]
    kind = (
        str(value.dtype).removeprefix("torch.") if isinstance(value, torch.Tensor) else type(value).__name__
    )
    return f"input {number} ({kind})"


def derived(
    inputs: list[Any], variants: dict[int, str], uses: dict[int, IntegerUse], seed: int
) -> list[Any] | None:
    """Return the inputs with some values varied, or None if no value changes.

    `variants` maps the index of a flattened input to its variant, and `uses` that of an integer tensor to its
    use in the reference.
    """
    values, structure = tree_flatten(inputs)
    changed = False
    for number, variant in variants.items():
        generator = torch.Generator().manual_seed(seed + number)
        new = varied(values[number], variant, uses.get(number, IntegerUse()), generator)
        if new is not None:
            values[number], changed = new, True
    return list(tree_unflatten(values, structure)) if changed else None


def varied(value: Any, variant: str, use: IntegerUse, generator: torch.Generator) -> Any:
    """Return another value that keeps the value's kind, such as sorted or mask, or None if there is none."""
    if not isinstance(value, torch.Tensor):
        return _scalar(value, variant, generator)
    stated = value.detach().cpu()
    if is_mask(stated) and (variant != "wide" or stated.dtype is torch.bool or not use.is_free):
        new = _mask(stated, variant, generator)
    elif _is_integer(stated):
        new = _integers(stated, variant, use, generator)
    else:
        new = None
    return None if new is None or torch.equal(new, stated) else new.to(value.device)


def _is_integer(x: torch.Tensor) -> bool:
    return not x.is_floating_point() and not x.is_complex()


def is_mask(x: torch.Tensor) -> bool:
    """Return True for booleans and for tensors of two values."""
    if x.dtype is torch.bool:
        return True
    if x.numel() < LEAST_MASK or x.is_complex():
        return False
    low, high = x.amin(), x.amax()
    return bool(low != high) and bool(((x == low) | (x == high)).all())


def _uniform(shape: Any, generator: torch.Generator) -> torch.Tensor:
    return torch.rand(shape, generator=generator)


def _choice(count: int, generator: torch.Generator) -> int:
    return int(torch.randint(count, (), generator=generator))


def _scalar(value: bool | int | float, variant: str, generator: torch.Generator) -> bool | int | float | None:
    if isinstance(value, bool):
        return not value if variant in ("redrawn", "ragged") else None
    if isinstance(value, int):
        choices = {
            "redrawn": (value + 1, value - 1, value + 2), "ragged": (2 * value + 1, value // 2),
            "runs": (value + 1,), "wide": (-value,),
        }.get(variant, ())  # fmt: skip
        fitting = [
            choice
            for choice in choices
            if choice != value and (choice > 0 or value <= 0 or variant == "wide")
        ]
        return fitting[_choice(len(fitting), generator)] if fitting else None
    power = float(2 ** (2 * _uniform((), generator) - 1))
    if 0 < value < 1:
        return {"redrawn": value**power, "ragged": value**0.125, "runs": value**4}.get(variant)
    return {
        "redrawn": value * power if value else power, "ragged": value * 16 + 1, "runs": value / 4,
        "wide": -value if value else -1.0,
    }.get(variant)  # fmt: skip


def _mask(x: torch.Tensor, variant: str, generator: torch.Generator) -> torch.Tensor | None:
    """Draw a mask of the tensor's two values. Rows of one value occur in the variant `ragged` only."""
    if x.dtype is torch.bool:
        low, high = torch.tensor(False), torch.tensor(True)
    else:
        low, high = x.amin(), x.amax()
    if x.dim() == 0:
        return torch.where(x == low, high, low)
    width = x.shape[-1]
    rows = x.reshape(-1, width)
    count = rows.shape[0]
    density = torch.tensor(DENSITIES)[torch.randint(len(DENSITIES), (count, 1), generator=generator)]
    chosen = _uniform(rows.shape, generator) < density
    if variant != "redrawn":
        at = torch.arange(width)
        ends = torch.randint(width + 1, (count, 2), generator=generator).sort(dim=1).values
        kind = torch.randint(8 if variant == "ragged" else 6, (count, 1), generator=generator)
        run = (at >= ends[:, :1]) & (at < ends[:, 1:])
        for number, pattern in enumerate((at < ends[:, 1:], at >= ends[:, :1], run, ~run)):
            chosen = torch.where(kind == number, pattern, chosen)
        chosen = torch.where(kind == 6, False, torch.where(kind == 7, True, chosen))
        if variant == "ragged" and count > 1:
            single = torch.randperm(count, generator=generator)[:2]
            chosen[single[0]], chosen[single[1]] = False, True
    if variant != "ragged" and width > 1:
        both = _uniform(rows.shape, generator).argsort(dim=1)[:, :2]
        chosen.scatter_(1, both, torch.tensor([[False, True]]).expand(count, 2))
    return torch.where(chosen, high, low).reshape(x.shape).to(x.dtype)


def _integers(
    x: torch.Tensor, variant: str, use: IntegerUse, generator: torch.Generator
) -> torch.Tensor | None:
    flat = x.reshape(-1, x.shape[-1]) if x.dim() else x.reshape(1, 1)
    if variant in ("wide", "signed"):
        return _signed(x, variant, generator) if use.is_free else None
    low, high = _range(x, variant, use)
    if low >= high:
        return None
    width = flat.shape[1]
    ordered = flat.sort(dim=1).values
    is_distinct = width > 1 and bool((ordered.diff(dim=1) > 0).all())
    is_sorted = width > 2 and bool((flat.diff(dim=1) >= 0).all()) and bool((flat.diff(dim=1) > 0).any())
    is_permutation = is_distinct and bool((ordered.diff(dim=1) == 1).all()) and not is_sorted
    if is_permutation or (use.is_unique and is_distinct):
        return _distinct(flat, is_permutation, is_sorted, (low, high), generator).reshape(x.shape).to(x.dtype)
    new = low + (_uniform(flat.shape, generator).double() * (high - low + 1)).long().clamp_(max=high - low)
    if variant != "redrawn":
        skewed = low + (_uniform(flat.shape, generator).double() ** 6 * (high - low + 1)).long()
        ends = torch.where(_uniform(flat.shape, generator) < 0.5, low, high)
        kind = torch.randint(4, (flat.shape[0], 1), generator=generator)
        if flat.shape[0] == 1 and width > 3:
            kind = torch.randint(4, (1, 4), generator=generator).repeat_interleave(-(-width // 4), 1)[
                :, :width
            ]
        for number, pattern in enumerate((new[:, :1], ends, skewed)):
            new = torch.where(kind == number, pattern, new)
    special = sorted(value for value in use.special if low <= value <= high or value < 0)
    if special:
        planted = torch.tensor(special)[torch.randint(len(special), flat.shape, generator=generator)]
        new = torch.where(_uniform(flat.shape, generator) < 0.125, planted, new)
    if is_sorted:
        new = new.sort(dim=1).values
        if use.is_stepped:
            new[:, 0], new[:, -1] = flat[:, 0], flat[:, -1]
    return new.reshape(x.shape).to(x.dtype)


def _range(x: torch.Tensor, variant: str, use: IntegerUse) -> tuple[int, int]:
    """Return the least and the largest new value for an integer tensor, from its values and use."""
    low, high = int(x.amin()), int(x.amax())
    if use.is_derived or use.is_stepped:
        return low, high
    if use.bounds:
        return min(max(low, 0), min(use.bounds) - 1), min(use.bounds) - 1
    if use.compared:
        least = min(low, *use.compared)
        if low > 0 and variant != "ragged":
            least = max(least, 1)  # The mean over a length of zero is often undefined.
        return least, max(high, max(use.compared) + 1)
    return (min(low, 0), max(high, 1)) if low == high else (low, high)


def _distinct(
    flat: torch.Tensor,
    is_permutation: bool,
    is_sorted: bool,
    ends: tuple[int, int],
    generator: torch.Generator,
) -> torch.Tensor:
    """Draw an integer tensor in whose rows no value occurs twice."""
    count, width = flat.shape
    low, high = ends
    size = width if is_permutation or high - low + 1 > 1 << 20 else high - low + 1
    least = int(flat.amin()) if is_permutation else low
    new = torch.stack([torch.randperm(size, generator=generator)[:width] for _ in range(count)]) + least
    return new.sort(dim=1).values if is_sorted else new


def _signed(x: torch.Tensor, variant: str, generator: torch.Generator) -> torch.Tensor:
    """Draw integers of either sign.

    Their magnitudes reach the dtype's for `wide`, and those of the stated values otherwise.
    """
    info = torch.iinfo(x.dtype)
    stated = max(int(x.amax()), -int(x.amin()), 1).bit_length()
    bits = min(info.bits - (info.min < 0), MOST_BITS) if variant == "wide" else stated
    if variant == "wide" and info.bits > 16:
        # Some headroom keeps sums and small multiples of every element in range.
        bits = max(stated, bits - 14)
    magnitude = 2 ** (_uniform(x.shape, generator).double() * bits)
    sign = (
        torch.where(_uniform(x.shape, generator) < 0.5, 1, -1)
        if info.min < 0
        else torch.ones((), dtype=torch.long)
    )
    return (magnitude.long() * sign).clamp(info.min, info.max).to(x.dtype)


Runs = Callable[[list[Any]], str | None]
"""Function that runs the reference on inputs and returns the reason why it refuses them, or None."""


def supported(
    inputs: list[Any], uses: dict[int, IntegerUse], runs: Runs, seed: int
) -> tuple[dict[str, dict[int, str]], list[str]]:
    """Return a variant for each value, by family and index, and notes on the values that cannot vary."""
    found: dict[str, dict[int, str]] = {family: {} for family in VARIANTS}
    fixed = []
    for number in places(inputs):
        reason = _UNCHANGED
        for family, variants in VARIANTS.items():
            for variant in variants:
                changed = derived(inputs, {number: variant}, uses, seed)
                if changed is None:
                    continue
                refused = runs(changed)
                if refused is None:
                    found[family][number] = variant
                    break
                reason = refused
        if not any(number in chosen for chosen in found.values()):
            fixed.append(f"{described(inputs, number)} stays as given: {reason}")
    return found, fixed
