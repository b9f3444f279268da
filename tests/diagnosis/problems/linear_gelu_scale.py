"""A linear layer, exact GELU, then a factor."""

import torch
import torch.nn.functional as F
from torch import nn

batch = 19
in_features = 50
out_features = 37
factor = 1.5


class Model(nn.Module):
    def __init__(self, in_features, out_features, factor):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.factor = factor

    def forward(self, x):
        return F.gelu(self.linear(x)) * self.factor


def get_inputs():
    return [torch.randn(batch, in_features)]


def get_init_inputs():
    return [in_features, out_features, factor]
