"""LayerNorm over the hidden dimension of a short sequence."""

import torch
from torch import nn

batch = 3
length = 7
hidden = 77


class Model(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.norm = nn.LayerNorm(hidden, eps=1e-3)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(batch, length, hidden)]


def get_init_inputs():
    return [hidden]
