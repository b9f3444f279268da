"""Adaptive max pooling of sequences."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.pool = nn.AdaptiveMaxPool1d(size)

    def forward(self, x):
        return self.pool(x)


def get_inputs():
    return [torch.randn(5, 8, 50)]


def get_init_inputs():
    return [9]
