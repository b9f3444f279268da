"""Two projections of the same rows, one gating the other by SiLU."""

import torch
import torch.nn.functional as F
from torch import nn

rows = 21
width = 18
hidden = 27


class Model(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)

    def forward(self, x):
        return F.silu(self.gate(x)) * self.up(x)


def get_inputs():
    return [torch.randn(rows, width) * 2]


def get_init_inputs():
    return [width, hidden]
