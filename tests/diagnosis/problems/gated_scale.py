"""A gated map, scaled by channel, then hardswish."""

import torch
import torch.nn.functional as F
from torch import nn

batch = 3
channels = 14
length = 45


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(channels, 1))

    def forward(self, x, gate):
        return F.hardswish(x * torch.sigmoid(gate) * self.scale)


def get_inputs():
    return [torch.randn(batch, channels, length) * 3, torch.randn(batch, channels, length)]


def get_init_inputs():
    return [channels]
