"""Generalised mean over each plane."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, power, low):
        super().__init__()
        self.power, self.low = power, low

    def forward(self, x):
        mean = x.clamp(min=self.low).pow(self.power).mean(dim=(2, 3))
        return mean.pow(1 / self.power)


def get_inputs():
    return [torch.randn(5, 12, 7, 9) + 0.4]


def get_init_inputs():
    return [2.5, 0.01]
