"""A grouped transposed convolution of stride two, a group norm and SiLU: one stage of a decoder."""

import torch
import torch.nn.functional as F
from torch import nn

batch = 3
channels = 6
wide = 12
height = 5
width = 7


class Model(nn.Module):
    def __init__(self, channels, wide):
        super().__init__()
        self.up = nn.ConvTranspose2d(channels, wide, 3, stride=2, padding=1, output_padding=1, groups=2)
        self.norm = nn.GroupNorm(4, wide)

    def forward(self, x):
        return F.silu(self.norm(self.up(x)))


def get_inputs():
    return [torch.randn(batch, channels, height, width) * 1.4 + 0.3]


def get_init_inputs():
    return [channels, wide]
