"""Torch's convolution modules on the shipped kernel."""

from collections.abc import Sequence
from typing import Any, Self, cast

import torch
from torch import nn

from agent.kernels.conv_fp32x3.operator import conv_fp32x3, conv_transpose_fp32x3


class _FP32x3:
    """Mixin of all convolution modules here. Constructor, parameters and state_dict are torch's."""

    @classmethod
    def from_torch(cls, module: nn.Module) -> Self:
        """Return this layer on the parameters of torch's `module`, shared and not copied."""
        made = cls.__new__(cls)
        made.__dict__.update(module.__dict__)
        return made

    def _conv_forward(
        self, input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        """Return the convolution [n, features, *] of input [n, channels, *]; n may be missing.

        "same" and "valid" padding and padding modes other than zeros are applied by torch beforehand.
        """
        if input.dim() == weight.dim() - 1:
            return self._conv_forward(input[None], weight, bias)[0]
        layer = cast(nn.Conv2d, self)
        padding: Any = layer.padding
        if isinstance(padding, str) or layer.padding_mode != "zeros":
            mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
            input = nn.functional.pad(input, layer._reversed_padding_repeated_twice, mode)
            padding = 0
        return conv_fp32x3(input, weight, bias, layer.stride, padding, layer.dilation, layer.groups)


class _TransposedFP32x3(_FP32x3):
    def forward(self, input: torch.Tensor, output_size: Sequence[int] | None = None) -> torch.Tensor:
        """Return the transposed convolution [n, features, *] of input [n, channels, *]; n may be missing.

        `output_size` gives the spatial sizes of the result.
        """
        layer = cast(nn.ConvTranspose2d, self)
        if input.dim() == layer.weight.dim() - 1:
            return self.forward(input[None], output_size)[0]
        size, padding = layer.kernel_size, cast(tuple[int, ...], layer.padding)
        more = layer._output_padding(
            input, cast(Any, output_size), cast(Any, layer.stride), cast(Any, padding), cast(Any, size),
            len(size), cast(Any, layer.dilation),
        )  # fmt: skip
        return conv_transpose_fp32x3(
            input, layer.weight, layer.bias, layer.stride, padding, more, layer.groups, layer.dilation
        )


class Conv1dFP32x3(_FP32x3, nn.Conv1d):
    """`torch.nn.Conv1d` on the kernel of `conv_fp32x3`."""


class Conv2dFP32x3(_FP32x3, nn.Conv2d):
    """`torch.nn.Conv2d` on the kernel of `conv_fp32x3`."""


class Conv3dFP32x3(_FP32x3, nn.Conv3d):
    """`torch.nn.Conv3d` on the kernel of `conv_fp32x3`."""


class ConvTranspose1dFP32x3(_TransposedFP32x3, nn.ConvTranspose1d):
    """`torch.nn.ConvTranspose1d` on the kernel of `conv_transpose_fp32x3`."""


class ConvTranspose2dFP32x3(_TransposedFP32x3, nn.ConvTranspose2d):
    """`torch.nn.ConvTranspose2d` on the kernel of `conv_transpose_fp32x3`."""


class ConvTranspose3dFP32x3(_TransposedFP32x3, nn.ConvTranspose3d):
    """`torch.nn.ConvTranspose3d` on the kernel of `conv_transpose_fp32x3`."""
