"""Distances of order three between all pairs of two sets of points."""

import torch
from torch import nn

batch = 2
left = 17
right = 23
width = 9


class Model(nn.Module):
    def forward(self, x, y):
        return torch.cdist(x, y, p=3.0)


def get_inputs():
    return [torch.randn(batch, left, width), torch.randn(batch, right, width)]


def get_init_inputs():
    return []
