"""Max pooling of sequences, all values negative."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, kernel_size, stride, padding):
        super().__init__()
        self.pool = nn.MaxPool1d(kernel_size, stride=stride, padding=padding)

    def forward(self, x):
        return self.pool(x)


def get_inputs():
    return [torch.rand(3, 7, 101) - 1.5]


def get_init_inputs():
    return [5, 3, 2]
