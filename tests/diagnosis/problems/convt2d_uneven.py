"""A transposed convolution with other strides, paddings and output paddings per axis."""

import torch
from torch import nn

batch = 2
inner = 5
outer = 7
height = 6
width = 5


class Model(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.conv = nn.ConvTranspose2d(
            inner, outer, (3, 4), stride=(2, 3), padding=(1, 0), output_padding=(1, 2)
        )

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(batch, inner, height, width)]


def get_init_inputs():
    return [inner, outer]
