"""Histogram equalisation of each image; values beyond the ends count in the outermost bins."""

import torch
from torch import nn

images = 5
height = 13
width = 17


class Model(nn.Module):
    def __init__(self, bins, low, high):
        super().__init__()
        self.bins, self.low, self.high = bins, low, high

    def forward(self, x):
        flat = x.flatten(1)
        place = ((flat - self.low) / (self.high - self.low) * self.bins).long().clamp(0, self.bins - 1)
        counts = flat.new_zeros(flat.size(0), self.bins).scatter_add(1, place, torch.ones_like(flat))
        share = counts.cumsum(dim=1) / flat.size(1)
        return share.gather(1, place).view_as(x), counts


def get_inputs():
    spread = torch.rand(images, 1, 1, 1) + 0.7
    return [torch.round(torch.randn(images, 1, height, width) * spread * 16) / 16 + 1 / 32]


def get_init_inputs():
    return [16, -2.0, 2.0]
