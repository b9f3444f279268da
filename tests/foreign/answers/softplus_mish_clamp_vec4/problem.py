import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Mish, plus a clamped copy of the input, over a flat tensor of odd length."""

    def __init__(self, low: float = -2.0, high: float = 2.0):
        super().__init__()
        self.low = low
        self.high = high

    def forward(self, x):
        return F.mish(x), x.clamp(self.low, self.high)


length = 40_000_003


def get_inputs():
    return [torch.randn(length) * 4]


def get_init_inputs():
    return []
