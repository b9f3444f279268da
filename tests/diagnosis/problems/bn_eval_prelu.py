"""Inference batch norm of sequences with a slope for each channel below zero."""

import torch
import torch.nn.functional as F
from torch import nn

batch = 4
channels = 6
length = 19


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(channels) + 0.5)
        self.bias = nn.Parameter(torch.randn(channels) * 0.3)
        self.slope = nn.Parameter(torch.full((channels,), 0.25))

    def forward(self, x, mean, variance):
        y = F.batch_norm(x, mean, variance, self.weight, self.bias, training=False, eps=1e-3)
        return F.prelu(y, self.slope)


def get_inputs():
    x = torch.randn(batch, channels, length) * 1.3 + 0.2
    return [x, torch.randn(channels) * 0.5, torch.rand(channels) * 0.6 + 0.05]


def get_init_inputs():
    return [channels]
