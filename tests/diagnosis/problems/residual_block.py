"""A pre-norm block: x + W2 silu(W1 norm(x))."""

import torch
import torch.nn.functional as F
from torch import nn

rows = 13
width = 32
inner = 40


class Model(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, inner)
        self.down = nn.Linear(inner, width)

    def forward(self, x):
        return x + self.down(F.silu(self.up(self.norm(x))))


def get_inputs():
    return [torch.randn(rows, width) * 2 + 0.5]


def get_init_inputs():
    return [width, inner]
