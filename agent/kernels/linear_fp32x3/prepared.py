"""A weight that is split once for many calls, and when it has to be split again.

A split weight is good for the version of the tensor that it was made from: torch counts changes in place, and
the optimizers' are among them. It does not count those through `weight.data`, nor those of code that writes
to the memory by itself: after one of them the weight has to be prepared anew by hand.
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
    """A weight [n, k] together with its split form, in the place of a weight."""

    weight: torch.Tensor
    packed: torch.Tensor | None
    """4 bytes for an element of it, padded; None where no kernel takes it so: then the weight is used."""
    mark: tuple[int, int]
    """Address and version of the weight when it was split."""

    def current(self) -> torch.Tensor | None:
        """The split form; None while torch.compile traces, which cannot see a change of the weight.

        Raises ValueError where the weight has changed since.
        """
        if torch.compiler.is_compiling():
            return None
        if mark_of(self.weight) != self.mark:
            raise ValueError("the weight has changed since it was prepared: call prepare_weight again")
        return self.packed


def prepare_weight(weight: torch.Tensor) -> PreparedWeight:
    """Splits a weight [n, k] for calls that follow, which then take as little time as they can.

    Where the kernel does not take the weight it is kept as it is, and the calls say why.
    """
    mark = mark_of(weight)
    return PreparedWeight(weight, _split(weight), mark)


def remembered(weight: torch.Tensor) -> torch.Tensor | None:
    """The split form of a module's weight, made when it is asked for first and after each change.

    Another stream splits again: it does not wait for the one that did. None where a call has to split by
    itself: while torch.compile traces or a CUDA graph is captured, which would go on with the weight as it
    was, and for inference tensors, whose changes nobody counts.
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
    """What changes with the weight."""
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
"""Of each weight that is alive: its mark and the stream when it was split, and the split form."""
