"""Small calls that go to torch although the kernel supports them, because host time dominates there.

Replayed calls are never left to torch: they cost the host no more than torch's own. Without replay, a
kernel's call costs the host more than one of torch's operators. With a gradient the call costs most, because
its formula is Python. Below these thresholds that cost is more than the GPU saves. They come from the sweep's
shapes that are not held back, on an H100 (docs/kernels-sweep.md).

Under torch.compile and during CUDA graph capture host time does not count, so no call is left to torch for
its size. `routing.POINTWISE` names the kernels that the compiler computes itself. AGENT_KERNELS_ALWAYS=1
sends every call to its kernel.
"""

from math import inf
from typing import NamedTuple

import torch

from agent.kernels import routing
from agent.kernels.replaying import replayed


class Least(NamedTuple):
    """Minimum bytes of an input for which the kernel is faster than torch."""

    forward: float
    step: float
    """Minimum bytes of an input if a gradient is wanted."""


BY_PYTHON = {
    "add_layer_norm": Least(0, 48e6),
    "add_rms_norm": Least(0, 60e6),
    "gate_product": Least(0, 4e6),
    "gelu": Least(48e6, inf),
    "layer_norm": Least(4e6, 80e6),
    "rms_norm": Least(0, 80e6),
    "softmax": Least(8e6, 60e6),
}
OF_SHORT_ROWS = {
    "add_layer_norm": Least(0, 16e6),
    "add_rms_norm": Least(0, 16e6),
    "layer_norm": Least(4e6, 80e6),
    "rms_norm": Least(0, 16e6),
}
"""Thresholds for rows of up to SHORT elements, where torch's norms take several times as long."""
SHORT = 256


def is_torchs(kernel: str, x: torch.Tensor, *others: torch.Tensor | None) -> bool:
    """Return True if torch should compute a call of this size; `others` are its further tensors."""
    if not x.is_cuda or torch.compiler.is_compiling():
        return False
    if routing.is_disabled() or routing.is_always() or torch.cuda.is_current_stream_capturing():
        return False
    if replayed.is_there():
        return False
    least = _by_python(kernel, x)
    bound = least.step if _wants_gradient(x, *others) else least.forward
    return x.numel() * x.element_size() < bound


def _by_python(kernel: str, x: torch.Tensor) -> Least:
    is_short = kernel in OF_SHORT_ROWS and x.shape[-1] <= SHORT
    return OF_SHORT_ROWS[kernel] if is_short else BY_PYTHON[kernel]


def _wants_gradient(*tensors: torch.Tensor | None) -> bool:
    if torch.is_grad_enabled():
        for tensor in tensors:
            if tensor is not None and tensor.requires_grad:
                return True
    return False
