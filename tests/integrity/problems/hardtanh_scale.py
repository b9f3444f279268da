"""A clip at +-8 that normal inputs never reach, times 1.5."""

import torch
import torch.nn.functional as F
from torch import nn

rows = 30
columns = 64


class Model(nn.Module):
    def forward(self, x):
        return F.hardtanh(x, -8.0, 8.0) * 1.5


def get_inputs():
    return [torch.randn(rows, columns)]


def get_init_inputs():
    return []
