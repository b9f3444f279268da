"""Softplus in bfloat16."""

import torch
import torch.nn.functional as F
from torch import nn

rows = 16
columns = 40


class Model(nn.Module):
    def forward(self, x):
        return F.softplus(x)


def get_inputs():
    return [torch.randn(rows, columns, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
