"""In which order the elements of a GroupNorm's tensors lie: channels first, or last."""

import torch

CONTIGUOUS, CHANNELS_LAST = 0, 1
"""As `Layout` of csrc/interface.h."""


def layout_of(x: torch.Tensor) -> int:
    """The layout that x has, or that it is copied to."""
    return CHANNELS_LAST if not x.is_contiguous() and _is_last(x) else CONTIGUOUS


def laid_out(tensor: torch.Tensor, layout: int) -> torch.Tensor:
    """`tensor` in this layout; itself where it is so already."""
    return tensor.contiguous() if layout == CONTIGUOUS else tensor.contiguous(memory_format=_last(tensor))


def format_of(x: torch.Tensor) -> torch.memory_format:
    """Torch's name for the layout that x has, or that it is copied to."""
    return torch.contiguous_format if layout_of(x) == CONTIGUOUS else _last(x)


def _is_last(x: torch.Tensor) -> bool:
    return x.dim() in (4, 5) and x.is_contiguous(memory_format=_last(x))


def _last(x: torch.Tensor) -> torch.memory_format:
    return torch.channels_last if x.dim() == 4 else torch.channels_last_3d
