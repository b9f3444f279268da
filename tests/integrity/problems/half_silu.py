"""SiLU in half precision."""

import torch
import torch.nn.functional as F
from torch import nn

rows = 16
columns = 40


class Model(nn.Module):
    def forward(self, x):
        return F.silu(x)


def get_inputs():
    return [torch.randn(rows, columns, dtype=torch.float16)]


def get_init_inputs():
    return []
