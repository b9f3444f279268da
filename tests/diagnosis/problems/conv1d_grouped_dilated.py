"""Grouped, dilated convolution of a sequence with GELU and a residual."""

import torch
import torch.nn.functional as F
from torch import nn

batch = 3
channels = 8
length = 23
groups = 2


class Model(nn.Module):
    def __init__(self, channels, groups):
        super().__init__()
        self.conv = nn.Conv1d(channels, channels, 3, padding=3, dilation=3, groups=groups)

    def forward(self, x):
        return x + F.gelu(self.conv(x))


def get_inputs():
    return [torch.randn(batch, channels, length) * 2]


def get_init_inputs():
    return [channels, groups]
