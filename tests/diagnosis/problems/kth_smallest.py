"""The seventh smallest value along the middle dimension and its index."""

import torch
from torch import nn

batch = 6
items = 29
columns = 5
k = 7


class Model(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k

    def forward(self, x):
        values, indices = torch.kthvalue(x, self.k, dim=1)
        return values, indices


def get_inputs():
    return [torch.randn(batch, items, columns)]


def get_init_inputs():
    return [k]
