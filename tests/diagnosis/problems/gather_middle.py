"""Gathers along the middle dimension, by an index for every element, and weighs what was gathered."""

import torch
from torch import nn

batch = 4
items = 21
picks = 8
width = 13


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))

    def forward(self, x, index):
        return torch.gather(x, 1, index) * self.weight


def get_inputs():
    return [torch.randn(batch, items, width), torch.randint(0, items, (batch, picks, width))]


def get_init_inputs():
    return [width]
