"""Softmax over the channels at a temperature, and a sigmoid of another tensor as gate."""

import torch
from torch import nn

batch = 3
channels = 13
height = 9
width = 7
temperature = 0.6


class Model(nn.Module):
    def __init__(self, temperature):
        super().__init__()
        self.temperature = temperature

    def forward(self, x, gate):
        return torch.softmax(x / self.temperature, dim=1) * torch.sigmoid(gate)


def get_inputs():
    return [torch.randn(batch, channels, height, width), torch.randn(batch, channels, height, width) * 2]


def get_init_inputs():
    return [temperature]
