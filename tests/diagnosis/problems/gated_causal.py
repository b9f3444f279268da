"""A gated block of dilated causal convolutions with a residual."""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self, channels, dilation):
        super().__init__()
        self.conv = nn.Conv1d(channels, 2 * channels, 3, dilation=dilation)
        self.out = nn.Conv1d(channels, channels, 1)
        self.before = 2 * dilation

    def forward(self, x):
        signal, gate = self.conv(F.pad(x, (self.before, 0))).chunk(2, dim=1)
        return x + self.out(torch.tanh(signal) * torch.sigmoid(gate))


def get_inputs():
    return [torch.randn(2, 6, 50)]


def get_init_inputs():
    return [6, 4]
