"""A linear layer, then GELU in its exact form."""

import torch
import torch.nn.functional as F
from torch import nn

batch = 20
in_features = 70
out_features = 45


class Model(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        return F.gelu(self.linear(x))


def get_inputs():
    return [torch.randn(batch, in_features)]


def get_init_inputs():
    return [in_features, out_features]
