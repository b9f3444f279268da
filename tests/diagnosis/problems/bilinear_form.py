"""A bilinear form of two vectors for each output, with bias and leaky ReLU."""

import torch
import torch.nn.functional as F
from torch import nn

rows = 27
left = 12
right = 15
outputs = 14


class Model(nn.Module):
    def __init__(self, left, right, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, left, right) * 0.2)
        self.bias = nn.Parameter(torch.randn(outputs))

    def forward(self, x, y):
        return F.leaky_relu(torch.einsum("bi,oij,bj->bo", x, self.weight, y) + self.bias, 0.1)


def get_inputs():
    return [torch.randn(rows, left), torch.randn(rows, right)]


def get_init_inputs():
    return [left, right, outputs]
