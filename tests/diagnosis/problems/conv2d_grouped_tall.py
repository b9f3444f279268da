"""A grouped convolution with a tall filter and a stride along the rows alone."""

import torch
from torch import nn

batch = 2
inner = 12
outer = 20
groups = 4
height = 11
width = 9


class Model(nn.Module):
    def __init__(self, inner, outer, groups):
        super().__init__()
        self.conv = nn.Conv2d(inner, outer, (5, 3), stride=(2, 1), padding=(2, 1), groups=groups)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(batch, inner, height, width)]


def get_init_inputs():
    return [inner, outer, groups]
