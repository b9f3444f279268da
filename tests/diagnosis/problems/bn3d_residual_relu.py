"""BatchNorm3d in evaluation mode, plus a residual, then ReLU."""

import torch
from torch import nn

batch = 3
channels = 7
depth = 4
height = 5
width = 6


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm3d(channels)
        self.eval()

    def forward(self, x, skip):
        return torch.relu(self.norm(x) + skip)


def get_inputs():
    shape = (batch, channels, depth, height, width)
    return [torch.randn(shape), torch.randn(shape)]


def get_init_inputs():
    return [channels]
