"""Memory layouts that change neither the shape nor the values of a tensor.

Standalone: the worker runs a copy of this file, so that candidate and reference receive the same layout. The
gaps between and around the elements are NaN in floating-point tensors and zero elsewhere.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map_only


def _transposed(x: torch.Tensor) -> torch.Tensor:
    """Return the values with the last two dimensions exchanged in memory."""
    return x.transpose(-1, -2).contiguous().transpose(-1, -2) if x.dim() > 1 else x


def _channels_last(x: torch.Tensor) -> torch.Tensor:
    return x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x


def _strided(x: torch.Tensor) -> torch.Tensor:
    """Return the values in every second element of a tensor that is twice as long."""
    if x.dim() == 0:
        return x
    room = _blank((*x.shape[:-1], 2 * x.shape[-1]), x)
    view = room[..., ::2]
    view.copy_(x)
    return view


def _offset(x: torch.Tensor) -> torch.Tensor:
    """Return a contiguous tensor that begins one element after an aligned address."""
    view = _blank((x.numel() + 1,), x)[1:].view(x.shape)
    view.copy_(x)
    return view


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "transposed": _transposed,
    "channels-last": _channels_last,
    "strided": _strided,
    "offset": _offset,
}


def laid_out(value: Any, layout: str | None) -> Any:
    """Return the value with every tensor in `layout`, or the value itself for None."""
    if layout is None:
        return value
    return tree_map_only(torch.Tensor, LAYOUTS[layout], value)


def _blank(shape: tuple[int, ...], like: torch.Tensor) -> torch.Tensor:
    fill = float("nan") if like.is_floating_point() else 0
    return torch.full(shape, fill, dtype=like.dtype, device=like.device)
