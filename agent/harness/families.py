"""Inputs derived from those that `get_inputs` draws, so that shortcuts on the stated distribution show.

Only floating-point tensors change, and of these only finite elements; integers, masks and scalars stay. What
a family does to the reference is not known here: the oracle leaves out a draw that the reference cannot take.
"""

from collections.abc import Callable
from typing import Any

import torch

Change = Callable[[torch.Tensor, torch.Generator], torch.Tensor]

NEAR = "near"
"""The draw before with a few elements changed: answers remembered by address or by a sample are stale."""


ENOUGH = 1 << 26
"""Elements from which a deviation is taken: those of a larger tensor are not copied for it."""


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
    "vast": lambda x, generator: x * 1024,
    "minute": lambda x, generator: x / (1 << 20),
    NEAR: _near,
}


def derived(family: str, inputs: list[Any], seed: int) -> list[Any] | None:
    """The inputs of the family; None where there is no floating-point tensor to change."""
    changed = 0

    def change(value: Any) -> Any:
        nonlocal changed
        if isinstance(value, torch.Tensor):
            if not value.is_floating_point() or value.numel() == 0:
                return value
            changed += 1
            generator = torch.Generator(value.device).manual_seed(seed)
            new = FAMILIES[family](value, generator).to(value.dtype)
            return torch.where(torch.isfinite(value), new, value)
        if isinstance(value, (list, tuple)):
            return type(value)(change(item) for item in value)
        if isinstance(value, dict):
            return {key: change(item) for key, item in value.items()}
        return value

    result = [change(value) for value in inputs]
    return result if changed else None
