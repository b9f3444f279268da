"""The norm of order three along the middle dimension."""

import torch
from torch import nn

batch = 7
items = 33
columns = 11


class Model(nn.Module):
    def forward(self, x):
        return torch.linalg.vector_norm(x, ord=3, dim=1)


def get_inputs():
    return [torch.randn(batch, items, columns)]


def get_init_inputs():
    return []
