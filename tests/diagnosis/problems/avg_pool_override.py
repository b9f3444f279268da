"""Pooling that divides every sum by a number of its own."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool = nn.AvgPool2d((2, 3), stride=(2, 3), divisor_override=5)

    def forward(self, x):
        return self.pool(x)


def get_inputs():
    return [torch.randn(3, 4, 18, 24)]


def get_init_inputs():
    return []
