"""A grouped, dilated, transposed convolution of sequences."""

import torch
from torch import nn

batch = 3
inner = 8
outer = 12
groups = 4
length = 17


class Model(nn.Module):
    def __init__(self, inner, outer, groups):
        super().__init__()
        self.conv = nn.ConvTranspose1d(inner, outer, 4, stride=2, padding=3, dilation=3, groups=groups)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(batch, inner, length)]


def get_init_inputs():
    return [inner, outer, groups]
