"""Weights that are split once for many calls, and the rule for when to split again.

A split weight is valid for one version of its tensor. Torch counts in-place changes, an optimizer's included.
It does not count changes of inference tensors, through `weight.data`, or by code that writes to the memory
directly. After uncounted changes, prepare the weight again.
"""

from collections.abc import MutableMapping
from dataclasses import dataclass

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from agent.kernels import routing
from agent.kernels.linear_fp32x3 import product
from agent.kernels.operators import stream


@dataclass(frozen=True)
class PreparedWeight:
    """Weight [n, k] with its split form, accepted in place of a weight."""

    weight: torch.Tensor
    packed: torch.Tensor | None
    """Split form, 4 bytes per element and padded. None if no kernel uses a split form; calls then use the
    weight.
    """
    mark: tuple[int, int]
    """Address and version of the weight when it was split."""

    def current(self) -> torch.Tensor | None:
        """Return the split form; None while torch.compile traces, which cannot see a change of the weight.

        Raises ValueError if the weight has changed since it was split.
        """
        if torch.compiler.is_compiling():
            return None
        if mark_of(self.weight) != self.mark:
            raise ValueError("the weight has changed since it was prepared: call prepare_weight again")
        return self.packed


def prepare_weight(weight: torch.Tensor) -> PreparedWeight:
    """Split a weight [n, k] ahead of the calls that use it.

    A weight that the kernel does not support is kept unsplit, and the calls record why.
    """
    mark = mark_of(weight)
    return PreparedWeight(weight, _split(weight), mark)


def remembered(weight: torch.Tensor) -> torch.Tensor | None:
    """Return the cached split form of a module's weight, made on first use and after each change.

    A call on another stream splits again, since it does not wait for the stream of the first split. Returns
    None where the call has to split by itself. That holds while torch.compile traces or a CUDA graph is
    captured, which would freeze the weight, and for inference tensors, whose changes are not counted.
    """
    if torch.compiler.is_compiling() or weight.is_inference() or not routing.is_eager((weight,)):
        return None
    mark = (*mark_of(weight), 0)
    if weight.is_cuda:
        if torch.cuda.is_current_stream_capturing():
            return None
        mark = (*mark_of(weight), stream(weight))
    known = _SPLIT.get(weight)
    if known is None or known[0] != mark:
        _SPLIT[weight] = known = (mark, _split(weight))
    return known[1]


def mark_of(weight: torch.Tensor) -> tuple[int, int]:
    """Return address and version of the weight; a change of the weight changes them."""
    return weight.data_ptr(), 0 if weight.is_inference() else weight._version


def _split(weight: torch.Tensor) -> torch.Tensor | None:
    if not weight.is_cuda or weight.dim() != 2 or weight.numel() == 0:
        return None
    with torch.no_grad():
        takes = routing.takes(product.KERNEL, weight, dtypes=DTYPES)
        return product.split(weight) if takes else None


DTYPES = (torch.float32,)
_SPLIT: MutableMapping[torch.Tensor, tuple[tuple[int, int, int], torch.Tensor | None]] = (
    WeakTensorKeyDictionary()
)
"""Mark and stream at the time of the split, and the split form, of each live weight."""
