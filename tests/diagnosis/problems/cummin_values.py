"""Running minimum along the last dimension."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.cummin(x, dim=-1).values


def get_inputs():
    return [torch.randn(5, 11, 67)]


def get_init_inputs():
    return []
