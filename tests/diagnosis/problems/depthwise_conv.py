"""A depthwise 1-D convolution over a sequence, then SiLU."""

import torch
import torch.nn.functional as F
from torch import nn

batch = 3
channels = 14
length = 50
kernel = 4


class Model(nn.Module):
    def __init__(self, channels, kernel):
        super().__init__()
        self.conv = nn.Conv1d(channels, channels, kernel, padding=kernel - 1, groups=channels)
        self.kernel = kernel

    def forward(self, x):
        return F.silu(self.conv(x)[:, :, : x.size(2)])


def get_inputs():
    return [torch.randn(batch, channels, length)]


def get_init_inputs():
    return [channels, kernel]
