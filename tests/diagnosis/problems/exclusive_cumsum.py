"""Running sum of what lies before each element."""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return F.pad(torch.cumsum(x, dim=1)[:, :-1], (1, 0))


def get_inputs():
    return [torch.randn(6, 257)]


def get_init_inputs():
    return []
