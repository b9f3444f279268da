"""Timed cases of matrix products and convolutions, with sizes of KernelBench and of networks."""

from functools import partial
from math import prod
from typing import Any

import torch

from agent.kernels.case import Case, both
from agent.kernels.conv_fp32x3.operator import conv_fp32x3, conv_transpose_fp32x3
from agent.kernels.matmul_fp32x3.operator import matmul_fp32x3
from agent.kernels.matmul_half.operator import matmul_half

PRODUCTS = (
    ((2048, 8192), (8192, 4096)), ((128, 512, 1024), (128, 1024, 2048)), ((256, 524288), (524288, 256)),
    ((32768, 64), (64, 32768)), ((8205, 2949), (2949, 5921)),
    ((32768, 32), (32, 32768)),
    ((16, 1024, 2048), (2048, 768)), ((8, 256, 512, 256), (256, 768)),
    *(((size, size), (size, size)) for size in (256, 512, 1024, 2048, 8192)),
    ((64, 256, 256), (64, 256, 256)),
)  # fmt: skip
WINDOWS: tuple[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
    ((32, 64, 56, 56), (64, 64, 3, 3), {"padding": 1}), ((32, 256, 14, 14), (256, 256, 3, 3), {"padding": 1}),
    ((32, 3, 224, 224), (64, 3, 7, 7), {"stride": 2, "padding": 3}),
    ((4, 320, 64, 64), (320, 320, 3, 3), {"padding": 1}),
    ((8, 64, 512, 1024), (128, 64, 3, 3), {}), ((16, 3, 64, 64, 64), (64, 3, 3, 5, 7), {}),
    ((32, 64, 131072), (128, 64, 3), {}), ((16, 64, 1024, 1024), (128, 64, 1, 1), {}),
)  # fmt: skip


def products() -> list[Case]:
    """Return the cases of matmul_fp32x3.

    The square of 4096 comes as a training step too, and with transposed operands.
    """

    def made(a: tuple[int, ...], b: tuple[int, ...], **more: Any) -> Case:
        sizes = {"ours": matmul_fp32x3, "native": torch.matmul, "setting": " x ".join(map(str, b)), **more}
        return Case(
            "matmul_fp32x3", shape=a, parameters=(b,), result_share=b[-1] / a[-1], macs=prod(a) * b[-1],
            sample=None if len(a) == 2 else 1, **sizes,
        )  # fmt: skip

    def transposed(function: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = function(a.mT, b.mT)
        return result

    size = (4096, 4096)
    sides = {"ours": partial(transposed, matmul_fp32x3), "native": partial(transposed, torch.matmul)}
    return [
        *both(made(size, size)), made(size, size, **sides, setting="4096 x 4096, both transposed"),
        *(made(a, b) for a, b in PRODUCTS),
    ]  # fmt: skip


def halves() -> list[Case]:
    """Return the cases of matmul_half in both dtypes; the square of 4096 comes as a training step too."""

    def made(a: tuple[int, ...], b: tuple[int, ...], dtype: torch.dtype) -> Case:
        return Case(
            "matmul_half", matmul_half, torch.matmul, a, (b,), dtype, setting=" x ".join(map(str, b)),
            result_share=b[-1] / a[-1], macs=prod(a) * b[-1], sample=None if len(a) == 2 else 1,
        )  # fmt: skip

    size = (4096, 4096)
    first, *others = (made(a, b, torch.bfloat16) for a, b in ((size, size), *PRODUCTS))
    return [*both(first), made(size, size, torch.float16), *others]


def convolutions() -> list[Case]:
    """Return the cases of conv_fp32x3 with TF32 off, with one training step and two transposed cases."""

    def made(x: tuple[int, ...], weight: tuple[int, ...], more: dict[str, Any], back: bool = False) -> Case:
        space = len(weight) - 2
        ours = partial(conv_transpose_fp32x3 if back else conv_fp32x3, **more)
        native: Any = getattr(torch.nn.functional, f"conv{'_transpose' if back else ''}{space}d")
        native = partial(native, **more)
        with torch.device("meta"):
            pixels = native(torch.empty(x), torch.empty(weight)).shape
        setting = " x ".join(map(str, weight)) + "".join(f", {name} {value}" for name, value in more.items())
        macs = prod(x if back else pixels) * prod(weight[1:])
        return Case(
            "conv_fp32x3", ours, native, x, (weight,), setting=f"transposed, {setting}" if back else setting,
            result_share=prod(pixels) / prod(x), macs=macs, sample=1,
        )  # fmt: skip

    first, *others = (made(*window) for window in WINDOWS)
    back = [
        made((8, 64, 512, 512), (64, 64, 3, 7), {}, True),
        made((16, 32, 16, 32, 32), (32, 64, 3, 3, 3), {"stride": 2, "padding": 1, "dilation": 2}, True),
    ]
    return [*both(first), *others, *back]
