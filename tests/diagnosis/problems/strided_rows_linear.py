"""Every third row, from the second on, through a linear layer; the input is a transposed view."""

import torch
from torch import nn

length = 50
width = 18
features = 21


class Model(nn.Module):
    def __init__(self, width, features):
        super().__init__()
        self.linear = nn.Linear(width, features)

    def forward(self, x):
        return self.linear(x[1::3])


def get_inputs():
    return [torch.randn(width, length).t()]


def get_init_inputs():
    return [width, features]
