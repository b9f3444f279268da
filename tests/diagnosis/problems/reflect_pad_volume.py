"""Reflection at all six sides of a volume, by different amounts."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, amounts):
        super().__init__()
        self.pad = nn.ReflectionPad3d(amounts)

    def forward(self, x):
        return self.pad(x)


def get_inputs():
    return [torch.randn(2, 2, 4, 5, 6)]


def get_init_inputs():
    return [(2, 1, 0, 3, 1, 2)]
