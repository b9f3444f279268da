"""Convolution, GroupNorm, tanh, hardswish, the convolution added back, then LogSumExp over the channels."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 128
in_channels = 8
out_channels = 64
height = 128
width = 128
kernel_size = 3
num_groups = 16
eps = 1e-5


class Model(nn.Module):
    """The residual is the output of the convolution itself, before it is normalised."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, num_groups: int, eps: float) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.group_norm = nn.GroupNorm(num_groups, out_channels, eps=eps)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        convolved = self.conv(x)
        activated = F.hardswish(torch.tanh(self.group_norm(convolved)))
        return torch.logsumexp(convolved + activated, dim=1, keepdim=True)


def get_inputs():
    return [torch.randn(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, num_groups, eps]
