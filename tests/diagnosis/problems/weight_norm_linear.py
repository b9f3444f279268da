"""A linear layer whose rows have lengths of their own."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.direction = nn.Parameter(torch.randn(outer, inner))
        self.length = nn.Parameter(torch.rand(outer) + 0.5)
        self.bias = nn.Parameter(torch.randn(outer))

    def forward(self, x):
        norm = self.direction.norm(dim=1, keepdim=True)
        return x @ (self.direction * self.length.unsqueeze(1) / norm).t() + self.bias


def get_inputs():
    return [torch.randn(9, 23)]


def get_init_inputs():
    return [23, 14]
