"""Adaptive average pooling to a size that does not divide the input's."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(size)

    def forward(self, x):
        return self.pool(x)


def get_inputs():
    return [torch.randn(3, 6, 13, 17)]


def get_init_inputs():
    return [(5, 7)]
