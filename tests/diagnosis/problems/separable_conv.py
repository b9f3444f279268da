"""Two filters per channel, ReLU, and a mix of the channels."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.depth = nn.Conv2d(inner, 2 * inner, 3, stride=(2, 1), padding=1, groups=inner)
        self.mix = nn.Conv2d(2 * inner, outer, 1)

    def forward(self, x):
        return self.mix(torch.relu(self.depth(x)))


def get_inputs():
    return [torch.randn(2, 6, 9, 10)]


def get_init_inputs():
    return [6, 5]
