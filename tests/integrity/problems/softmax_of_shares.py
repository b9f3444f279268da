"""Softmax over rows of numbers between 0 and 1."""

import torch
from torch import nn

rows = 16
columns = 100


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)


def get_inputs():
    return [torch.rand(rows, columns)]


def get_init_inputs():
    return []
