"""Module with the layers of the reference on the shipped kernel."""

import torch
from torch import nn

from agent.kernels.conv_group_norm_tanh_hardswish_residual_logsumexp.operator import (
    conv_group_norm_tanh_hardswish_residual_logsumexp,
)


class ConvGroupNormTanhHardswishResidualLogSumExp(nn.Module):
    """Module with the constructor, parameters and state_dict of `Model` in the kernel's reference."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int, num_groups: int, eps: float = 1e-5
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.group_norm = nn.GroupNorm(num_groups, out_channels, eps=eps)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return [n, 1, height - kernel_size + 1, width - kernel_size + 1].

        x is [n, in_channels, height, width].
        """
        conv, norm = self.conv, self.group_norm
        return conv_group_norm_tanh_hardswish_residual_logsumexp(
            x, conv.weight, conv.bias, norm.num_groups, norm.weight, norm.bias, norm.eps
        )
