"""The nearest element of a volume, by centres."""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        return F.interpolate(x, size=self.size, mode="nearest-exact") * 0.5


def get_inputs():
    return [torch.randn(2, 3, 4, 5, 6)]


def get_init_inputs():
    return [(7, 9, 11)]
