"""Mean of each row without its two lowest and three highest elements, taken from the row's middle."""

import torch
from torch import nn

rows = 13
width = 24


class Model(nn.Module):
    def forward(self, x):
        ordered = x.sort(dim=1).values
        return ordered[:, 2:-3].mean(1) - ordered[:, (x.size(1) - 1) // 2]


def get_inputs():
    return [torch.randn(rows, width).exp()]


def get_init_inputs():
    return []
