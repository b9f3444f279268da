"""Families of inputs derived from those of `get_inputs`, to expose shortcuts on the stated distribution.

Only finite elements of floating-point tensors change; integers, masks and scalars stay. The derivation does
not depend on the reference, and the oracle leaves out a draw that the reference does not accept.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from agent.harness.task.protocol import DOMINATED
from agent.harness.truth import mixtures
from agent.harness.worker.memory_guards import leaves

Change = Callable[[torch.Tensor, torch.Generator], torch.Tensor]

NEAR = "near"
"""Family that repeats the previous draw with a few elements changed.

Outputs that a candidate remembers by address, or by a sample of the input's elements, are then wrong.
"""


VARIED = 1 / 64
"""Maximum share by which each element of the inputs shrinks if `get_inputs` ignores the seed.

Signs, zeros and infinities stay.
"""
ENOUGH = 1 << 26
"""Maximum number of elements that are processed at a time, so that no large tensor is copied whole.

A standard deviation is estimated from this many elements.
"""
MOST = 1 << 20
"""Maximum factor of single large elements, whose squares have to be finite in float32."""
VAST, LARGE = 1 << 14, 1 << 10
"""Minimum factor of vast inputs, which is also the minimum size of their largest element.

LARGE is used if the reference does not accept inputs of VAST.
"""
SPECIAL = (1.0, -1.0, 2.0**-110, -(2.0**-110))
"""Numbers placed among sparse inputs, unless they are larger than the inputs or of a sign that these lack.

None is denormal, since a kernel may flush denormals to zero.
"""
MOST_DOUBLINGS = 100
"""Maximum exponent of the power of two by which vast inputs are scaled, which float32 can hold."""


def varied(tensor: torch.Tensor, seed: int) -> torch.Tensor:
    if not tensor.is_floating_point():
        return tensor
    generator = torch.Generator(tensor.device).manual_seed(seed)
    lost = VARIED * torch.rand(tensor.shape, generator=generator, device=tensor.device)
    return tensor * (1 - lost).to(tensor.dtype)


def _deviation(x: torch.Tensor) -> torch.Tensor:
    some = x.reshape(-1)[:ENOUGH] if x.is_contiguous() else x
    return some[torch.isfinite(some)].std(correction=0)


def _shifted(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return x + 3 * _deviation(x)


def _negative(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return -(x.abs() + _deviation(x))


def _sparse(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    keep = torch.rand(x.shape, generator=generator, device=x.device) < 0.1
    if x.dim() > 1:
        keep[0] = False
    return _with_special(torch.where(keep, x, 0), x, generator)


def _with_special(sparse: torch.Tensor, x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Place each special number several times, at random places outside the first slice."""
    flat = sparse.reshape(-1)
    first = sparse[0].numel() if sparse.dim() > 1 and sparse.shape[0] > 1 else 0
    finite = torch.nan_to_num(x, nan=0.0, posinf=0.0, neginf=0.0)
    largest = float(torch.linalg.vector_norm(finite, math.inf))
    negative = bool(finite.amin() < 0)
    del finite
    tiny = torch.finfo(x.dtype).tiny
    for value in SPECIAL:
        if abs(value) <= largest and (value > 0 or negative):
            count = max(flat.numel() >> 8, 1)
            places = torch.randint(first, flat.numel(), (count,), generator=generator, device=x.device)
            flat[places] = math.copysign(max(abs(value), tiny), value)
    return sparse


def _tied(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    step = _deviation(x) / 2
    return (x / step).round_().mul_(step) if bool(step > 0) else x


def _even(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Pull all magnitudes towards their geometric mean, scaled to 1, and keep the signs.

    The exponent is the inverse square root of the longest dimension's length. A product over that dimension
    is then about as large as one element was.
    """
    size = torch.where(x == 0, 1.0, x.abs().double())
    logarithm = size.log()
    finite = torch.isfinite(logarithm)
    mean = torch.where(finite, logarithm, 0.0).sum() / finite.sum().clamp_min(1)
    power = 1 / max(x.shape, default=1) ** 0.5
    even = ((logarithm - mean) * power).exp()
    return torch.where(x < 0, -even, even).to(x.dtype)


def _lone(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Zero all elements but the last and up to seven random ones, which are scaled by the element count."""
    flat, few = x.reshape(-1), torch.zeros_like(x).reshape(-1)
    places = torch.randint(flat.numel(), (8,), generator=generator, device=x.device)
    places[0] = flat.numel() - 1
    few[places] = flat[places] * min(flat.numel(), MOST)
    return few.reshape(x.shape)


def _rows(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Zero all slices of the first dimension but the last and up to seven random ones.

    These slices are scaled by the number of slices.
    """
    few = torch.zeros_like(x)
    places = torch.randint(x.shape[0] if x.dim() else 1, (8,), generator=generator, device=x.device)
    places[0] = -1 if x.dim() else 0
    rows, given = (few, x) if x.dim() else (few.reshape(1), x.reshape(1))
    rows[places] = given[places] * min(rows.shape[0], MOST)
    return rows.reshape(x.shape)


def _uneven(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Scale each slice of the first dimension by a random power of two, the last slice by 2^10."""
    slices = x.shape[:1] + (1,) * (x.dim() - 1)
    powers = torch.randint(11, slices, generator=generator, device=x.device)
    powers.reshape(-1)[-1] = 10
    return x * (2.0**powers).to(x.dtype)


def _scaled_to(x: torch.Tensor, least: int) -> torch.Tensor:
    """Scale by a power of two until the largest element is at least `least`, which overflows exp."""
    size = float(torch.where(torch.isfinite(x), x, 0).abs().max())
    needed = math.ceil(math.log2(least / size)) if size > 0 else 0
    return x * 2.0 ** min(max(needed, least.bit_length() - 1), MOST_DOUBLINGS)


def _near(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    flat = x.clone().reshape(-1)
    places = torch.randint(max(flat.numel(), 1), (2, 8), generator=generator, device=x.device)
    if flat.numel() > 1:
        flat[places[0]] = flat[places[1]]
    return flat.reshape(x.shape)


FAMILIES: dict[str, Change] = {
    "shifted": _shifted,
    "scaled": lambda x, generator: x * 32,
    "faint": lambda x, generator: x / 1024,
    "sparse": _sparse,
    "tied": _tied,
    "negative": _negative,
    "negated": lambda x, generator: -x,
    "vast": lambda x, generator: _scaled_to(x, VAST),
    "large": lambda x, generator: _scaled_to(x, LARGE),
    "minute": lambda x, generator: x / (1 << 20),
    "even": _even,
    "lone": _lone,
    "rows": _rows,
    "uneven": _uneven,
    NEAR: _near,
}

MILDER: dict[str, tuple[str, ...]] = {
    "vast": ("large",),
    "mixed": tuple(mixtures.REACHES)[1:],
    "edges": ("finite edges",),
}
"""Milder families, strongest first, for each family that a reference may not accept."""


def _where_finite(new: torch.Tensor, stated: torch.Tensor) -> torch.Tensor:
    """Return `new` with the stated value wherever the stated or the new value is not finite.

    Families thus add no infinities, and a value that would overflow the dtype stays unchanged.
    """
    if stated.numel() < ENOUGH or not (new.is_contiguous() and stated.is_contiguous()):
        return torch.where(torch.isfinite(stated) & torch.isfinite(new), new, stated)
    # Large tensors are processed in pieces, as their masks and copies would double the memory.
    pieces = zip(torch.split(new.view(-1), ENOUGH), torch.split(stated.view(-1), ENOUGH), strict=True)
    for one, other in pieces:
        one.copy_(torch.where(torch.isfinite(other) & torch.isfinite(one), one, other))
    return new


def derived(family: str, inputs: list[Any], seed: int) -> list[Any] | None:
    """Return the inputs of the family, or None if there is no floating-point tensor to change.

    Families with single large elements or slices change only the largest tensors. In a product of two changed
    tensors, few of the large elements would meet.
    """
    changed = 0
    sizes = (tensor.numel() for tensor in leaves(inputs) if tensor.is_floating_point())
    least = max(sizes, default=0) if family in DOMINATED else 1

    def change(value: torch.Tensor) -> torch.Tensor:
        nonlocal changed
        if not value.is_floating_point() or value.numel() < max(least, 1):
            return value
        changed += 1
        generator = torch.Generator(value.device).manual_seed(seed)
        new = FAMILIES[family](value, generator).to(value.dtype)
        return _where_finite(new, value)

    result: list[Any] = tree_map_only(torch.Tensor, change, inputs)
    return result if changed else None
