"""Timed cases of linear layers: the fused kernel's shape at every depth, squares, a prepared weight."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from agent.kernels.case import Case, both
from agent.kernels.linear_fp32x3.operator import linear_fp32x3
from agent.kernels.linear_fp32x3.prepared import PreparedWeight, prepare_weight
from agent.kernels.linear_group_norm_min_bias.operator import linear_group_norm_min_bias

SIZES = (
    *((1024, 8192, k) for k in (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)),
    (128, 4096, 4096), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192),
)  # fmt: skip
"""Rows, features and depth of products: the fused kernel's at every depth, and squares."""


class _Prepared:
    """Function whose weight, its second argument, is split once instead of in every call."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        self._function = function
        self._ready: PreparedWeight | None = None

    def __call__(self, x: torch.Tensor, weight: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        if self._ready is None or self._ready.weight is not weight:
            self._ready = prepare_weight(weight)
        return self._function(x, self._ready, *others)


def _in_tf32(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        return F.linear(x, weight)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False


def products() -> list[Case]:
    """Return the cases of linear_fp32x3, with TF32 as a rival."""

    def made(m: int, n: int, k: int, **more: Any) -> Case:
        ours = {"rivals": {"TF32": _in_tf32}, "ours": linear_fp32x3, "setting": f"{n} features", **more}
        return Case(
            "linear_fp32x3", native=F.linear, shape=(m, k), parameters=((n, k),), result_share=n / k,
            macs=m * n * k, sample=None, **ours,
        )  # fmt: skip

    size, ieee = (1024, 8192, 8192), partial(linear_fp32x3, precision="ieee")
    forward, training = both(made(*size))
    return [
        forward, replace(training, rivals={}),
        *(made(*other) for other in SIZES if other != size),
        made(*size, ours=_Prepared(linear_fp32x3), setting="8192 features, prepared weight"),
        made(*size, ours=ieee, setting="8192 features, ieee"),
        *(
            made(*size[:2], k, is_positive=True, setting="8192 features, positive values")
            for k in (128, 1024, 8192)
        ),
    ]  # fmt: skip


def fused() -> list[Case]:
    """Return the cases of linear_group_norm_min_bias."""

    def ours(
        x: torch.Tensor, weight: Any, bias: torch.Tensor, *affine: torch.Tensor, precision: str = "fp32x3"
    ) -> torch.Tensor:
        linear_bias, gamma, beta = affine
        return linear_group_norm_min_bias(x, weight, linear_bias, 512, gamma, beta, bias, precision=precision)

    def native(
        x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, *affine: torch.Tensor
    ) -> torch.Tensor:
        linear_bias, gamma, beta = affine
        z = F.group_norm(F.linear(x, weight, linear_bias), 512, gamma, beta)
        return torch.min(z, dim=1, keepdim=True).values + bias

    size = 8192
    case = Case(
        "linear_group_norm_min_bias", ours, native, (1024, size),
        ((size, size), (1, size, 1, 1), (size,), (size,), (size,)), setting="512 groups",
        macs=1024 * size * size, sample=None,
    )  # fmt: skip
    return [
        *both(case),
        replace(case, ours=_Prepared(ours), setting="512 groups, prepared weight"),
        replace(case, ours=partial(ours, precision="ieee"), setting="512 groups, ieee"),
    ]
