"""A filter of even size with "same" padding."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, inner, outer, window):
        super().__init__()
        self.conv = nn.Conv2d(inner, outer, window, padding="same")

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(2, 4, 9, 11)]


def get_init_inputs():
    return [4, 6, 4]
