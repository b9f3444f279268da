"""Trilinear interpolation of volumes."""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        return F.interpolate(x, size=self.size, mode="trilinear", align_corners=False)


def get_inputs():
    return [torch.randn(1, 2, 5, 6, 7)]


def get_init_inputs():
    return [(11, 13, 12)]
