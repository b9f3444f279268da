"""A moving average that is updated in place, one row per expert, and the distance to it before."""

import torch
from torch import nn

rows = 14
width = 51


class Model(nn.Module):
    def __init__(self, decay):
        super().__init__()
        self.decay = decay

    def forward(self, average, x):
        distance = (x - average).abs().sum(dim=1)
        average.mul_(self.decay).add_(x, alpha=1 - self.decay)
        return average, distance


def get_inputs():
    return [torch.randn(rows, width), torch.randn(rows, width) + 0.5]


def get_init_inputs():
    return [0.9]
