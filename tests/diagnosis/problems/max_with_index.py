"""The maximum along the middle dimension and where it stands."""

import torch
from torch import nn

batch = 6
items = 43
columns = 9


class Model(nn.Module):
    def forward(self, x):
        values, indices = torch.max(x, dim=1)
        return values, indices


def get_inputs():
    return [torch.randn(batch, items, columns) - 2.5]


def get_init_inputs():
    return []
