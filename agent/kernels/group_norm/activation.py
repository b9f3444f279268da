"""Activations that GroupNorm can fuse: their numbers in device code, values and derivatives.

Derivatives follow torch: relu has 0 at 0, and hardswish uses the quadratic part at -3 and 3.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F

NUMBERS = {"none": 0, "silu": 1, "gelu": 2, "relu": 3, "tanh": 4, "hardswish": 5}
"""Values of `Act` in csrc/interface.h; gelu is the exact (erf) variant."""


def value(z: torch.Tensor, act: str) -> torch.Tensor:
    """Return act(z), elementwise."""
    return _VALUES[act](z)


def slope(z: torch.Tensor, act: str) -> torch.Tensor:
    """Return the derivative of `value` with respect to z."""
    if act == "silu":
        share = torch.sigmoid(z)
        return share * (1 + z * (1 - share))
    if act == "gelu":
        density = (-z.square() / 2).exp() / math.sqrt(2 * math.pi)
        return (1 + torch.erf(z / math.sqrt(2))) / 2 + z * density
    if act == "relu":
        return (z > 0).to(z.dtype)
    if act == "tanh":
        return 1 - torch.tanh(z).square()
    if act == "hardswish":
        bent = torch.where(z < -3, torch.zeros_like(z), z / 3 + 0.5)
        return torch.where(z > 3, torch.ones_like(z), bent)
    return torch.ones_like(z)


_VALUES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "none": lambda z: z,
    "silu": F.silu,
    "gelu": F.gelu,
    "relu": F.relu,
    "tanh": torch.tanh,
    "hardswish": F.hardswish,
}
