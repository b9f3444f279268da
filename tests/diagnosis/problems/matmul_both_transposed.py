"""A^T B^T with a bias per row, of sizes that divide by nothing."""

import torch
from torch import nn

rows = 37
inner = 45
columns = 26


class Model(nn.Module):
    def __init__(self, rows):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(rows))

    def forward(self, a, b):
        return a.t() @ b.t() + self.bias[:, None]


def get_inputs():
    return [torch.randn(inner, rows), torch.randn(columns, inner)]


def get_init_inputs():
    return [rows]
