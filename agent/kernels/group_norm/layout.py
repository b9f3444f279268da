"""In which order the elements of a GroupNorm's tensors lie: channels first, or last."""

from collections.abc import Callable

import torch

CONTIGUOUS, CHANNELS_LAST = 0, 1
"""As `Layout` of csrc/interface.h."""


def layout_of(x: torch.Tensor) -> int:
    """The layout that x has, or that it is copied to."""
    return CHANNELS_LAST if not x.is_contiguous() and _is_last(x) else CONTIGUOUS


def like(tensor: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """`tensor` in the layout of x; itself where it is so already."""
    return tensor.contiguous(memory_format=FORMATS[layout_of(x)](x))


def _is_last(x: torch.Tensor) -> bool:
    return x.dim() in (4, 5) and x.is_contiguous(memory_format=_last(x))


def _last(x: torch.Tensor) -> torch.memory_format:
    return torch.channels_last if x.dim() == 4 else torch.channels_last_3d


FORMATS: dict[int, Callable[[torch.Tensor], torch.memory_format]] = {
    CONTIGUOUS: lambda x: torch.contiguous_format,
    CHANNELS_LAST: _last,
}
"""Torch's name for a layout of tensors with as many dimensions as x."""
