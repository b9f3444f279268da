"""Softmax over long rows of numbers that are drawn with a seed of the reference's own."""

import torch
from torch import nn

rows = 1024
columns = 8000


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)


def get_inputs():
    torch.manual_seed(42)
    return [torch.randn(rows, columns)]


def get_init_inputs():
    return []
