"""The product of a transposed matrix with another: A.T @ B."""

import torch
from torch import nn

inner = 40
rows = 40
columns = 33


class Model(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a.t(), b)


def get_inputs():
    return [torch.randn(inner, rows), torch.randn(inner, columns)]


def get_init_inputs():
    return []
