"""Every head's projection of the same rows: b n d, h d e -> b h n e."""

import torch
from torch import nn

batch = 3
rows = 14
width = 22
heads = 4
head_size = 9


class Model(nn.Module):
    def __init__(self, heads, width, head_size):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(heads, width, head_size) * 0.3)

    def forward(self, x):
        return torch.einsum("bnd,hde->bhne", x, self.weight)


def get_inputs():
    return [torch.randn(batch, rows, width)]


def get_init_inputs():
    return [heads, width, head_size]
