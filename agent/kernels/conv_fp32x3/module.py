"""torch's modules of convolutions over the shipped kernel."""

from collections.abc import Sequence
from typing import Any, Self, cast

import torch
from torch import nn

from agent.kernels.conv_fp32x3.operator import conv_fp32x3, conv_transpose_fp32x3


class _FP32x3:
    """What all of them share. Constructor, parameters and state_dict are torch's."""

    @classmethod
    def from_torch(cls, module: nn.Module) -> Self:
        """The same layer over the same parameters, which are shared and not copied."""
        made = cls.__new__(cls)
        made.__dict__.update(module.__dict__)
        return made

    def _conv_forward(
        self, input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        """[n, channels, *] -> [n, features, *], n where there is one; padding other than zeros is first."""
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
        """[n, channels, *] -> [n, features, *], n where there is one, of `output_size` where it is given."""
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
    """`torch.nn.Conv1d` by `conv_fp32x3`."""


class Conv2dFP32x3(_FP32x3, nn.Conv2d):
    """`torch.nn.Conv2d` by `conv_fp32x3`."""


class Conv3dFP32x3(_FP32x3, nn.Conv3d):
    """`torch.nn.Conv3d` by `conv_fp32x3`."""


class ConvTranspose1dFP32x3(_TransposedFP32x3, nn.ConvTranspose1d):
    """`torch.nn.ConvTranspose1d` by `conv_transpose_fp32x3`."""


class ConvTranspose2dFP32x3(_TransposedFP32x3, nn.ConvTranspose2d):
    """`torch.nn.ConvTranspose2d` by `conv_transpose_fp32x3`."""


class ConvTranspose3dFP32x3(_TransposedFP32x3, nn.ConvTranspose3d):
    """`torch.nn.ConvTranspose3d` by `conv_transpose_fp32x3`."""
