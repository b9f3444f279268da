"""BatchNorm in evaluation mode, then ReLU."""

import torch
from torch import nn

batch = 4
channels = 10
height = 5
width = 7


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)
        self.eval()

    def forward(self, x):
        return torch.relu(self.norm(x))


def get_inputs():
    return [torch.randn(batch, channels, height, width)]


def get_init_inputs():
    return [channels]
