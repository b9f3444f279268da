"""Adaptive maxima of a plane and where in it they were found."""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self, height, width):
        super().__init__()
        self.size = (height, width)

    def forward(self, x):
        values, places = F.adaptive_max_pool2d(x, self.size, return_indices=True)
        return values, places


def get_inputs():
    return [torch.randn(2, 5, 13, 11)]


def get_init_inputs():
    return [5, 4]
