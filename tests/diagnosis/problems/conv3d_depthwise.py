"""A depthwise convolution of volumes with two filters per channel and uneven strides."""

import torch
from torch import nn

batch = 2
channels = 6
depth = 5
height = 9
width = 7


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv3d(
            channels, 2 * channels, (2, 3, 3), stride=(1, 2, 1), padding=(0, 1, 1), groups=channels
        )

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(batch, channels, depth, height, width)]


def get_init_inputs():
    return [channels]
