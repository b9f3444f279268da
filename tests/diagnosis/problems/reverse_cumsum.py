"""Running sum from the end of each sequence."""

import torch
from torch import nn

batch = 4
length = 83
width = 6


class Model(nn.Module):
    def forward(self, x):
        return torch.flip(torch.cumsum(torch.flip(x, dims=[1]), dim=1), dims=[1])


def get_inputs():
    return [torch.randn(batch, length, width)]


def get_init_inputs():
    return []
