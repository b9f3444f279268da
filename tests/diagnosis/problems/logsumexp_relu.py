"""LogSumExp over the channels of a map, then ReLU."""

import torch
from torch import nn

batch = 3
channels = 19
height = 6
width = 7


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(torch.logsumexp(x, dim=1, keepdim=True) - 3)


def get_inputs():
    return [torch.randn(batch, channels, height, width) * 2]


def get_init_inputs():
    return []
