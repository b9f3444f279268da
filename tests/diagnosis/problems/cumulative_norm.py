"""Each frame is normalised by the mean and variance of all channels of the frames up to it."""

import torch
from torch import nn

batch = 3
channels = 8
frames = 61


class Model(nn.Module):
    def __init__(self, channels, eps):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(channels, 1))
        self.offset = nn.Parameter(torch.zeros(channels, 1))
        self.eps = eps

    def forward(self, x):
        count = torch.arange(1, x.size(2) + 1, device=x.device, dtype=x.dtype) * x.size(1)
        mean = x.sum(dim=1).cumsum(dim=1) / count
        power = x.pow(2).sum(dim=1).cumsum(dim=1) / count
        deviation = torch.sqrt(power - mean.pow(2) + self.eps)
        return self.gain * (x - mean.unsqueeze(1)) / deviation.unsqueeze(1) + self.offset


def get_inputs():
    return [torch.randn(batch, channels, frames) * 1.4 + 0.3]


def get_init_inputs():
    return [channels, 1e-3]
