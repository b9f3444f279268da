"""A transposed convolution in two groups, with stride, dilation and output padding."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, inner, outer, groups):
        super().__init__()
        self.conv = nn.ConvTranspose2d(
            inner, outer, 3, stride=2, padding=1, output_padding=1, groups=groups, dilation=2
        )

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(2, 6, 5, 6)]


def get_init_inputs():
    return [6, 4, 2]
