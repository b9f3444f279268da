"""A convolution on a ring."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, inner, outer, window):
        super().__init__()
        self.conv = nn.Conv1d(inner, outer, window, padding=window // 2, padding_mode="circular")

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(3, 5, 47)]


def get_init_inputs():
    return [5, 8, 5]
