"""Timed cases of each kernel: its reference's shape, a training step at that shape, and grids of sizes."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from agent.kernels import axis_cases, fused_cases, image_cases, linear_cases, product_cases
from agent.kernels.case import Case, Function, both
from agent.kernels.conv_group_norm_tanh_hardswish_residual_logsumexp.operator import (
    conv_group_norm_tanh_hardswish_residual_logsumexp as conv_logsumexp,
)
from agent.kernels.gelu.operator import gelu
from agent.kernels.group_norm.operator import group_norm
from agent.kernels.layer_norm.operator import layer_norm
from agent.kernels.logsumexp.operator import logsumexp
from agent.kernels.rms_norm.operator import rms_norm
from agent.kernels.softmax.operator import softmax

SMALL = (
    (1, 32, 8, 8), (2, 64, 16, 16), (8, 64, 32, 32), (16, 128, 16, 16), (1, 512, 16, 16), (32, 256, 8, 8),
    (4, 320, 64, 64), (2, 128, 128, 128), (64, 512), (8, 96, 1000),
)  # fmt: skip
"""Grid of GroupNorm, with shapes of diffusion models, detectors and small networks."""


def list_cases(kernel: str) -> tuple[Case, ...]:
    """Return the cases of one kernel."""
    return tuple(_CASES[kernel]())


def of_group_norm(shape: tuple[int, ...], groups: int, dtype: torch.dtype, act: str = "none") -> Case:
    """Return GroupNorm with weight and bias, followed by SiLU if `act` is silu."""

    def ours(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return group_norm(x, groups, weight, bias, act=act)

    def native(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        y = F.group_norm(x, groups, weight, bias)
        return F.silu(y) if act == "silu" else y

    setting = f"{groups} groups" + ("" if act == "none" else f", {act}")
    return Case("group_norm", ours, native, shape, (shape[1:2],) * 2, dtype, setting)


def _group_norm() -> list[Case]:
    large = of_group_norm((112, 64, 512, 512), 8, torch.float32)
    fused = of_group_norm((4, 320, 64, 64), 32, torch.float16, "silu")
    small = [of_group_norm(shape, 8 if shape[1] % 32 else 32, torch.float32) for shape in SMALL]
    rows = [replace(case, in_a_row=100, setting=f"{case.setting}, 100 in a row") for case in small]
    return [*both(large), *both(fused), *small, *rows]


def of_layer_norm(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Case:
    """Return LayerNorm of the last dimension, with weight and bias."""

    def ours(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return layer_norm(x, weight.shape, weight, bias)

    def native(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, weight.shape, weight, bias)

    return Case("layer_norm", ours, native, shape, (shape[-1:],) * 2, dtype)


def of_rms_norm(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Case:
    """Return RMSNorm of the last dimension, with a weight."""

    def ours(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return rms_norm(x, weight.shape, weight, 1e-6)

    def native(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, weight.shape, weight, 1e-6)

    return Case("rms_norm", ours, native, shape, (shape[-1:],), dtype)


def _pointwise(
    kernel: str, ours: Function, native: Any, shape: tuple[int, ...], share: float = 1.0
) -> list[Case]:
    return both(Case(kernel, ours, native, shape, result_share=share))


def of_conv_logsumexp(shape: tuple[int, ...], channels: int = 64, groups: int = 16) -> Case:
    """Return the fused 3x3 convolution to `channels`, for images [n, inputs, height, width]."""

    def ours(x: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        weight, bias, gamma, beta = parameters
        return conv_logsumexp(x, weight, bias, groups, gamma, beta)

    def native(x: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        weight, bias, gamma, beta = parameters
        c = F.conv2d(x, weight, bias)
        bent = F.hardswish(torch.tanh(F.group_norm(c, groups, gamma, beta)))
        return torch.logsumexp(c + bent, dim=1, keepdim=True)

    n, inputs, height, width = shape
    pixels = (height - 2) * (width - 2)
    return Case(
        "conv_group_norm_tanh_hardswish_residual_logsumexp", ours, native, shape,
        ((channels, inputs, 3, 3), *((channels,),) * 3),
        setting=f"{groups} groups, TF32 off", result_share=pixels / (inputs * height * width),
        macs=n * pixels * channels * inputs * 9,
    )  # fmt: skip


_CASES: dict[str, Callable[[], list[Case]]] = {
    "add_layer_norm": fused_cases.layer_norms,
    "add_rms_norm": fused_cases.rms_norms,
    "batch_norm": image_cases.evaluated,
    "conv_group_norm_tanh_hardswish_residual_logsumexp": lambda: both(of_conv_logsumexp((128, 8, 128, 128))),
    "conv_fp32x3": product_cases.convolutions,
    "cross_entropy": fused_cases.losses,
    "cumsum": axis_cases.cumulative,
    "embedding_norm": fused_cases.embeddings,
    "gate_product": fused_cases.gates,
    "gelu": lambda: _pointwise("gelu", gelu, F.gelu, (8192, 11008)),
    "group_norm": _group_norm,
    "layer_norm": lambda: both(of_layer_norm((16, 2048, 4096))),
    "linear_cross_entropy": fused_cases.vocabularies,
    "linear_fp32x3": linear_cases.products,
    "linear_group_norm_min_bias": linear_cases.fused,
    "logsumexp": lambda: _pointwise(
        "logsumexp", partial(logsumexp, dim=1), partial(torch.logsumexp, dim=1), (4096, 32000), 1 / 32000
    ),
    "masked_softmax": axis_cases.attention,
    "matmul_fp32x3": product_cases.products,
    "matmul_half": product_cases.halves,
    "reduction": axis_cases.reductions,
    "rms_norm": lambda: both(of_rms_norm((8, 2048, 4096))),
    "rotary": fused_cases.turns,
    "softmax": lambda: _pointwise(
        "softmax", partial(softmax, dim=1), partial(torch.softmax, dim=1), (4096, 16384)
    ),
}
