"""Running sum along the middle dimension."""

import torch
from torch import nn

batch = 3
length = 70
width = 45


class Model(nn.Module):
    def forward(self, x):
        return torch.cumsum(x, dim=1)


def get_inputs():
    return [torch.randn(batch, length, width)]


def get_init_inputs():
    return []
