"""Bilinear sampling at given places; the border is repeated."""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def forward(self, x, grid):
        return F.grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=True)


def get_inputs():
    return [torch.randn(3, 2, 8, 14), torch.rand(3, 9, 11, 2) * 2.4 - 1.2]


def get_init_inputs():
    return []
