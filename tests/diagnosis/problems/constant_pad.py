"""Border filled with one half."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.pad = nn.ConstantPad2d((1, 2, 3, 1), 0.5)

    def forward(self, x):
        return self.pad(x)


def get_inputs():
    return [torch.randn(2, 3, 12, 17)]


def get_init_inputs():
    return []
