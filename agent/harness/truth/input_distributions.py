"""Inputs derived from those that `get_inputs` draws, so that shortcuts on the stated distribution show.

Only floating-point tensors change, and of these only finite elements; integers, masks and scalars stay. What
a family does to the reference is not known here: the oracle leaves out a draw that the reference cannot take.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from agent.harness.task.protocol import DOMINATED
from agent.harness.worker.memory_guards import leaves

Change = Callable[[torch.Tensor, torch.Generator], torch.Tensor]

NEAR = "near"
"""The draw before with a few elements changed: answers remembered by address or by a sample are stale."""


ENOUGH = 1 << 26
"""Elements from which a deviation is taken: those of a larger tensor are not copied for it."""
MOST = 1 << 20
"""Largest factor by which single elements stand out; their squares have to be finite."""
VAST = 1 << 10
"""Least factor of vast inputs, and least size of their largest element."""
MOST_DOUBLINGS = 100
"""Of vast inputs: a factor that float32 can hold."""


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
    return torch.where(keep, x, 0)


def _tied(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    step = _deviation(x) / 2
    return (x / step).round_().mul_(step) if bool(step > 0) else x


def _even(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Signs stay, sizes come so near their geometric mean, made 1, that a product over the longest dimension
    is about as large as one element was: by a root whose power is the root of that length."""
    size = torch.where(x == 0, 1.0, x.abs().double())
    logarithm = size.log()
    finite = torch.isfinite(logarithm)
    mean = torch.where(finite, logarithm, 0.0).sum() / finite.sum().clamp_min(1)
    power = 1 / max(x.shape, default=1) ** 0.5
    even = ((logarithm - mean) * power).exp()
    return torch.where(x < 0, -even, even).to(x.dtype)


def _lone(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """The last element and up to seven others, as large as all elements together were; else zero."""
    flat, few = x.reshape(-1), torch.zeros_like(x).reshape(-1)
    places = torch.randint(flat.numel(), (8,), generator=generator, device=x.device)
    places[0] = flat.numel() - 1
    few[places] = flat[places] * min(flat.numel(), MOST)
    return few.reshape(x.shape)


def _rows(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """The last slice of the first dimension and up to seven others; else zero."""
    few = torch.zeros_like(x)
    places = torch.randint(x.shape[0] if x.dim() else 1, (8,), generator=generator, device=x.device)
    places[0] = -1 if x.dim() else 0
    rows, given = (few, x) if x.dim() else (few.reshape(1), x.reshape(1))
    rows[places] = given[places] * min(rows.shape[0], MOST)
    return rows.reshape(x.shape)


def _uneven(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Each slice of the first dimension times its own power of two, the last one times the largest."""
    slices = x.shape[:1] + (1,) * (x.dim() - 1)
    powers = torch.randint(11, slices, generator=generator, device=x.device)
    powers.reshape(-1)[-1] = 10
    return x * (2.0**powers).to(x.dtype)


def _vast(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Scaled until the largest element overflows an exponential, however small the stated ones are."""
    size = float(torch.where(torch.isfinite(x), x, 0).abs().max())
    needed = math.ceil(math.log2(VAST / size)) if size > 0 else 0
    return x * 2.0 ** min(max(needed, VAST.bit_length() - 1), MOST_DOUBLINGS)


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
    "vast": _vast,
    "minute": lambda x, generator: x / (1 << 20),
    "even": _even,
    "lone": _lone,
    "rows": _rows,
    "uneven": _uneven,
    NEAR: _near,
}


def derived(family: str, inputs: list[Any], seed: int) -> list[Any] | None:
    """The inputs of the family; None where there is no floating-point tensor to change.

    Single elements or slices stand out of the largest tensors alone: in a product of two, few would meet.
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
        # Nobody states that inputs may be infinite: what a short type cannot hold stays.
        return torch.where(torch.isfinite(value) & torch.isfinite(new), new, value)

    result: list[Any] = tree_map_only(torch.Tensor, change, inputs)
    return result if changed else None
