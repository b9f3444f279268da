"""Memory layouts of GroupNorm's tensors: channels first (contiguous) or channels last."""

import torch

CONTIGUOUS, CHANNELS_LAST = 0, 1
"""Values of `Layout` in csrc/interface.h."""


def layout_of(x: torch.Tensor) -> int:
    """Return the layout of x, or CONTIGUOUS if x must be copied first."""
    return CHANNELS_LAST if not x.is_contiguous() and _is_last(x) else CONTIGUOUS


def laid_out(tensor: torch.Tensor, layout: int) -> torch.Tensor:
    """Return `tensor` in `layout`, without a copy if it already has that layout."""
    return tensor.contiguous() if layout == CONTIGUOUS else tensor.contiguous(memory_format=_last(tensor))


def format_of(x: torch.Tensor) -> torch.memory_format:
    """Return the torch memory format that corresponds to `layout_of(x)`."""
    return torch.contiguous_format if layout_of(x) == CONTIGUOUS else _last(x)


def _is_last(x: torch.Tensor) -> bool:
    return x.dim() in (4, 5) and x.is_contiguous(memory_format=_last(x))


def _last(x: torch.Tensor) -> torch.memory_format:
    return torch.channels_last if x.dim() == 4 else torch.channels_last_3d
