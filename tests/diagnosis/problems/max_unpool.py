"""Max pooling undone: each maximum back at its place, zero elsewhere."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool = nn.MaxPool2d(2, stride=2, return_indices=True)
        self.unpool = nn.MaxUnpool2d(2, stride=2)

    def forward(self, x):
        values, indices = self.pool(x)
        return self.unpool(values, indices)


def get_inputs():
    return [torch.randn(2, 5, 12, 18)]


def get_init_inputs():
    return []
