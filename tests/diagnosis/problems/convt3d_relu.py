"""A transposed convolution of volumes, then ReLU."""

import torch
from torch import nn

batch = 2
inner = 3
outer = 5
depth = 3
height = 4
width = 3


class Model(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.conv = nn.ConvTranspose3d(inner, outer, 3, stride=2, padding=1, output_padding=1)

    def forward(self, x):
        return torch.relu(self.conv(x))


def get_inputs():
    return [torch.randn(batch, inner, depth, height, width)]


def get_init_inputs():
    return [inner, outer]
