"""The smallest element of each row."""

import torch
from torch import nn

rows = 20
columns = 150


class Model(nn.Module):
    def forward(self, x):
        return x.amin(dim=1)


def get_inputs():
    return [torch.randn(rows, columns)]


def get_init_inputs():
    return []
