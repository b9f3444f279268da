"""Errors of linear_fp32x3 and of the layer fused over it, on the operands of `drawn`."""

from collections.abc import Iterator

import torch
import torch.nn.functional as F

from agent.kernels import linear_group_norm_min_bias, prepare_weight
from agent.kernels.linear_fp32x3 import product
from benchmarks.kernels.drawn import FAMILIES

DEPTHS = (256, 320, 512, 1024, 4096, 16384)
"""From 256 on the tensor cores compute; a prepared weight is theirs at every size."""
WIDTH = 16
"""Of a group of the norm."""


def errors() -> Iterator[dict[str, object]]:
    """Root mean square errors, those of torch's SGEMM beside them."""
    for draw in FAMILIES:
        for m, n in ((512, 640), (2048, 1024)):
            for k in DEPTHS if m == 512 else DEPTHS[::3]:
                torch.manual_seed(k)
                x, weight = draw((m, k), (n, k))
                x, weight = x.contiguous(), weight.contiguous()
                ready = prepare_weight(weight)
                assert ready.packed is not None, "there are no tensor cores of sm_90"
                y, native = product.multiplied(x, weight, None, ready.packed, "fp32x3"), F.linear(x, weight)
                truth = F.linear(x.double(), weight.double())
                fused = linear_group_norm_min_bias(
                    x, ready, None, n // WIDTH, None, None, x.new_zeros(1, 1, 1, 1)
                )
                least, exact = _least(native), _least(truth)
                yield {
                    "family": draw.__name__,
                    "mnk": (m, n, k),
                    "linear": _rms(y, truth),
                    "torch": _rms(native, truth),
                    "fused": _rms(fused.view(-1), exact),
                    "torch_fused": _rms(least, exact),
                }


def _least(y: torch.Tensor) -> torch.Tensor:
    """Of each row after the norm."""
    return F.group_norm(y, y.shape[1] // WIDTH).min(1).values


def _rms(y: torch.Tensor, truth: torch.Tensor) -> float:
    return float((y.double() - truth).square().mean().sqrt())
