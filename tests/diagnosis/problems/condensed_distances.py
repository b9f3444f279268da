"""Euclidean distances between all pairs of rows, each pair once."""

import torch
import torch.nn.functional as F
from torch import nn

rows = 31
width = 8


class Model(nn.Module):
    def forward(self, x):
        return F.pdist(x)


def get_inputs():
    return [torch.randn(rows, width) * 1.5]


def get_init_inputs():
    return []
