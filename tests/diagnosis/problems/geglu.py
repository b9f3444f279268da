"""The first half of the last dimension times the GELU of the second."""

import torch
import torch.nn.functional as F
from torch import nn

batch = 5
length = 9
half = 22


class Model(nn.Module):
    def forward(self, x):
        value, gate = x.chunk(2, dim=-1)
        return value * F.gelu(gate)


def get_inputs():
    return [torch.randn(batch, length, 2 * half) * 2]


def get_init_inputs():
    return []
