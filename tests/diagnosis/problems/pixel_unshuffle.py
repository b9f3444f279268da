"""Pixels rearranged into channels."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.unshuffle = nn.PixelUnshuffle(factor)

    def forward(self, x):
        return self.unshuffle(x)


def get_inputs():
    return [torch.randn(2, 3, 12, 18)]


def get_init_inputs():
    return [2]
