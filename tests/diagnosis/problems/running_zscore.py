"""Each element standardised by the population statistics of its row so far."""

import torch
from torch import nn

rows = 7
steps = 50


class Model(nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.eps = eps

    def forward(self, x):
        count = torch.arange(1, x.size(1) + 1, device=x.device, dtype=x.dtype)
        mean = x.cumsum(1) / count
        variance = ((x * x).cumsum(1) / count - mean * mean).clamp_min(0)
        return (x - mean) / torch.sqrt(variance + self.eps)


def get_inputs():
    return [torch.randn(rows, steps) * 1.5 + 0.4]


def get_init_inputs():
    return [0.02]
