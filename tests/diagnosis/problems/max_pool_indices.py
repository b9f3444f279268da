"""Max pooling that also returns where each maximum lies in its plane."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool = nn.MaxPool2d(3, stride=2, padding=1, return_indices=True)

    def forward(self, x):
        values, indices = self.pool(x)
        return values, indices


def get_inputs():
    return [torch.randn(2, 5, 15, 22)]


def get_init_inputs():
    return []
