"""InstanceNorm without parameters, then a leaky ReLU."""

import torch
import torch.nn.functional as F
from torch import nn

batch = 3
channels = 10
height = 9
width = 7
slope = 0.2


class Model(nn.Module):
    def __init__(self, channels, slope):
        super().__init__()
        self.norm = nn.InstanceNorm2d(channels)
        self.slope = slope

    def forward(self, x):
        return F.leaky_relu(self.norm(x), negative_slope=self.slope)


def get_inputs():
    return [torch.randn(batch, channels, height, width)]


def get_init_inputs():
    return [channels, slope]
