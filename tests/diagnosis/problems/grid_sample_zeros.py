"""Bilinear sampling at given places; zero outside."""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def forward(self, x, grid):
        return F.grid_sample(x, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def get_inputs():
    return [torch.randn(2, 3, 9, 13), torch.rand(2, 10, 12, 2) * 2.6 - 1.3]


def get_init_inputs():
    return []
