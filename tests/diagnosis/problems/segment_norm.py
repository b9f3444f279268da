"""Rows normalised by mean and variance of their own segment; segments follow one another, one is empty."""

import torch
from torch import nn

rows = 83
width = 10
sizes = [5, 37, 1, 0, 16, 21, 3]
segments = 7


class Model(nn.Module):
    def __init__(self, segments, eps):
        super().__init__()
        self.segments = segments
        self.eps = eps

    def forward(self, x, segment):
        empty = x.new_zeros(self.segments, x.size(1))
        count = empty.index_add(0, segment, torch.ones_like(x)).clamp(min=1)
        mean = empty.index_add(0, segment, x) / count
        centred = x - mean[segment]
        variance = empty.index_add(0, segment, centred * centred) / count
        return centred * torch.rsqrt(variance + self.eps)[segment], mean


def get_inputs():
    segment = torch.tensor([s for s, size in enumerate(sizes) for _ in range(size)])
    return [torch.randn(rows, width) * 0.8 + 0.5, segment]


def get_init_inputs():
    return [segments, 0.2]
