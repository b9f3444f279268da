"""What each kernel is timed on: its reference's shape, a training step there, and GroupNorm's small shapes.

A case knows both sides as functions of the same tensors, and how to compare each with float64.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any

import torch
import torch.nn.functional as F

from agent.kernels.conv_group_norm_tanh_hardswish_residual_logsumexp.operator import (
    conv_group_norm_tanh_hardswish_residual_logsumexp as conv_logsumexp,
)
from agent.kernels.gelu.operator import gelu
from agent.kernels.group_norm.operator import group_norm
from agent.kernels.layer_norm.operator import layer_norm
from agent.kernels.logsumexp.operator import logsumexp
from agent.kernels.rms_norm.operator import rms_norm
from agent.kernels.softmax.operator import softmax

Function = Callable[..., torch.Tensor]
SAMPLE = 2
"""Leading entries of the input that are compared with float64."""
SMALL = (
    (1, 32, 8, 8), (2, 64, 16, 16), (8, 64, 32, 32), (16, 128, 16, 16), (1, 512, 16, 16), (32, 256, 8, 8),
    (4, 320, 64, 64), (2, 128, 128, 128), (64, 512), (8, 96, 1000),
)  # fmt: skip
"""GroupNorm's grid: what diffusion models, detectors and small networks have."""


@dataclass(frozen=True)
class Case:
    """One kernel at one shape."""

    kernel: str
    ours: Function
    native: Function
    """Torch's."""
    shape: tuple[int, ...]
    parameters: tuple[tuple[int, ...], ...] = ()
    """Shapes of what both functions take after the input."""
    dtype: torch.dtype = torch.float32
    setting: str = ""
    trains: bool = False
    result_share: float = 1.0
    """Elements of the result, for each of the input."""
    in_a_row: int = 1
    """Calls that follow each other without a pause in one timing: above 1 what launching costs is in it."""

    @property
    def dtype_name(self) -> str:
        """As torch spells it."""
        return str(self.dtype).removeprefix("torch.")

    @property
    def least_bytes(self) -> int:
        """What has to be read and written once; a training step reads the input and its gradient again."""
        traffic = 1 + self.result_share + (2 + self.result_share if self.trains else 0)
        return round(traffic * prod(self.shape)) * int(self.dtype.itemsize)

    def call(self, function: Function) -> Callable[[], object]:
        """A call on tensors made for it, always the same ones."""
        x, parameters = self._tensors("cuda")
        if not self.trains:
            return partial(_forward, function, x, parameters)
        for tensor in (x, *parameters):
            tensor.requires_grad_()
        with torch.no_grad():
            grad = torch.randn_like(function(x, *parameters))
        return partial(_step, function, x, parameters, grad)

    def errors(self) -> tuple[float, float]:
        """Largest error against float64 of the kernel, and of torch, on a sample of the input."""
        x, parameters = self._tensors("cuda")
        x = x[:SAMPLE].clone()
        with torch.no_grad():
            truth = self.native(x.double(), *(parameter.double() for parameter in parameters))
            return _distance(self.ours(x, *parameters), truth), _distance(self.native(x, *parameters), truth)

    def _tensors(self, device: str) -> tuple[torch.Tensor, list[torch.Tensor]]:
        generator = torch.Generator(device).manual_seed(0)

        def draw(shape: Sequence[int]) -> torch.Tensor:
            return torch.randn(tuple(shape), generator=generator, device=device, dtype=self.dtype)

        return draw(self.shape), [draw(shape) for shape in self.parameters]


def of(kernel: str) -> tuple[Case, ...]:
    """The cases of one kernel."""
    return tuple(_CASES[kernel]())


def _forward(function: Function, x: torch.Tensor, parameters: list[torch.Tensor]) -> object:
    with torch.no_grad():
        return function(x, *parameters)


def _step(function: Function, x: torch.Tensor, parameters: list[torch.Tensor], grad: torch.Tensor) -> object:
    return torch.autograd.grad(function(x, *parameters), (x, *parameters), grad)


def _distance(result: torch.Tensor, truth: torch.Tensor) -> float:
    return float((result.double() - truth).abs().max())


def _both(case: Case) -> list[Case]:
    """The case as it is, and as a training step."""
    setting = f"{case.setting} forward and backward".strip()
    return [case, replace(case, trains=True, setting=setting)]


def _group_norm() -> list[Case]:
    def made(shape: tuple[int, ...], groups: int, dtype: torch.dtype, act: str = "none") -> Case:
        def ours(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
            return group_norm(x, groups, weight, bias, act=act)

        def native(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
            y = F.group_norm(x, groups, weight, bias)
            return F.silu(y) if act == "silu" else y

        setting = f"{groups} groups" + ("" if act == "none" else f", {act}")
        return Case("group_norm", ours, native, shape, (shape[1:2],) * 2, dtype, setting)

    large = made((112, 64, 512, 512), 8, torch.float32)
    fused = made((4, 320, 64, 64), 32, torch.float16, "silu")
    small = [made(shape, 8 if shape[1] % 32 else 32, torch.float32) for shape in SMALL]
    rows = [replace(case, in_a_row=100, setting=f"{case.setting}, 100 in a row") for case in small]
    return [*_both(large), *_both(fused), *small, *rows]


def _layer_norm() -> list[Case]:
    def ours(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return layer_norm(x, weight.shape, weight, bias)

    def native(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, weight.shape, weight, bias)

    return _both(Case("layer_norm", ours, native, (16, 2048, 4096), ((4096,), (4096,))))


def _rms_norm() -> list[Case]:
    def ours(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return rms_norm(x, weight.shape, weight, 1e-6)

    def native(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, weight.shape, weight, 1e-6)

    return _both(Case("rms_norm", ours, native, (8, 2048, 4096), ((4096,),)))


def _pointwise(
    kernel: str, ours: Function, native: Any, shape: tuple[int, ...], share: float = 1.0
) -> list[Case]:
    return _both(Case(kernel, ours, native, shape, result_share=share))


def _conv_logsumexp() -> list[Case]:
    def ours(x: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        weight, bias, gamma, beta = parameters
        return conv_logsumexp(x, weight, bias, 16, gamma, beta)

    def native(x: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        weight, bias, gamma, beta = parameters
        c = F.conv2d(x, weight, bias)
        bent = F.hardswish(torch.tanh(F.group_norm(c, 16, gamma, beta)))
        return torch.logsumexp(c + bent, dim=1, keepdim=True)

    shapes = ((64, 8, 3, 3), (64,), (64,), (64,))
    share = (126 * 126) / (8 * 128 * 128)
    case = Case(
        "conv_group_norm_tanh_hardswish_residual_logsumexp", ours, native, (128, 8, 128, 128), shapes,
        setting="16 groups, TF32 off", result_share=share,
    )  # fmt: skip
    return _both(case)


_CASES: dict[str, Callable[[], list[Case]]] = {
    "conv_group_norm_tanh_hardswish_residual_logsumexp": _conv_logsumexp,
    "gelu": lambda: _pointwise("gelu", gelu, F.gelu, (8192, 11008)),
    "group_norm": _group_norm,
    "layer_norm": _layer_norm,
    "logsumexp": lambda: _pointwise(
        "logsumexp", partial(logsumexp, dim=1), partial(torch.logsumexp, dim=1), (4096, 32000), 1 / 32000
    ),
    "rms_norm": _rms_norm,
    "softmax": lambda: _pointwise(
        "softmax", partial(softmax, dim=1), partial(torch.softmax, dim=1), (4096, 16384)
    ),
}
