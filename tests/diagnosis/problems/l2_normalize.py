"""Each column divided by its Euclidean length, which is at least eps."""

import torch
import torch.nn.functional as F
from torch import nn

rows = 24
columns = 35


class Model(nn.Module):
    def forward(self, x):
        return F.normalize(x, p=2, dim=0, eps=0.5)


def get_inputs():
    return [torch.randn(rows, columns) * 0.1]


def get_init_inputs():
    return []
