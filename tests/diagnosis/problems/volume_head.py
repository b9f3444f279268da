"""A grouped, dilated convolution over volumes, bounded, and its means over an uneven grid."""

import torch
import torch.nn.functional as F
from torch import nn

batch = 2
inner = 4
outer = 6
depth = 6
height = 9
width = 7


class Model(nn.Module):
    def __init__(self, inner, outer, groups, grid):
        super().__init__()
        self.conv = nn.Conv3d(inner, outer, (3, 3, 2), padding=(1, 2, 0), dilation=(1, 2, 1), groups=groups)
        self.grid = grid

    def forward(self, x):
        return F.adaptive_avg_pool3d(torch.clamp(self.conv(x), -0.5, 1.0), self.grid)


def get_inputs():
    return [torch.randn(batch, inner, depth, height, width) * 2]


def get_init_inputs():
    return [inner, outer, 2, (4, 2, 5)]
