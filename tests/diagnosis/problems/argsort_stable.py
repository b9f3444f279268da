"""A stable argsort of small integers along the first dimension."""

import torch
from torch import nn

items = 53
columns = 7


class Model(nn.Module):
    def forward(self, keys):
        return torch.argsort(keys, dim=0, stable=True)


def get_inputs():
    return [torch.randint(-4, 5, (items, columns))]


def get_init_inputs():
    return []
