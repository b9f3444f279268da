"""A curve of each channel, given at even steps from `low` to `high` and read with linear interpolation."""

import torch
from torch import nn

batch = 2
channels = 3
height = 9
width = 8
knots = 17


class Model(nn.Module):
    def __init__(self, low, high):
        super().__init__()
        self.low = low
        self.high = high

    def forward(self, x, curve):
        n = curve.size(1)
        place = ((x - self.low) / (self.high - self.low)).clamp(0, 1) * (n - 1)
        left = place.floor().clamp_max(n - 2)
        t = place - left
        channel = torch.arange(x.size(1), device=x.device).view(1, -1, 1, 1)
        at = left.long()
        return curve[channel, at] * (1 - t) + curve[channel, at + 1] * t


def get_inputs():
    return [torch.randn(batch, channels, height, width), torch.randn(channels, knots)]


def get_init_inputs():
    return [-1.5, 1.5]
