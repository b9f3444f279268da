"""Histogram that shares each element between the two nearest bins; the end bins take those outside."""

import torch
from torch import nn

rows = 5
elements = 130
bins = 10


class Model(nn.Module):
    def __init__(self, low, high, bins):
        super().__init__()
        self.low = low
        self.high = high
        self.bins = bins

    def forward(self, x):
        place = (x - self.low) / (self.high - self.low) * self.bins - 0.5
        place = place.clamp(0, self.bins - 1)
        centres = torch.arange(self.bins, device=x.device, dtype=x.dtype)
        share = (1 - (place.unsqueeze(2) - centres).abs()).clamp_min(0)
        return share.sum(1) / x.size(1)


def get_inputs():
    return [torch.randn(rows, elements)]


def get_init_inputs():
    return [-1.8, 1.4, bins]
