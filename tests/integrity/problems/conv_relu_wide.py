"""A 3x3 convolution with seven kilobytes of weights, then ReLU."""

import torch
from torch import nn

batch = 2
in_channels = 8
out_channels = 24
height = 10
width = 11


class Model(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, 3)

    def forward(self, x):
        return torch.relu(self.conv(x))


def get_inputs():
    return [torch.randn(batch, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels]
