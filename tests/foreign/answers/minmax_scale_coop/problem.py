import torch
import torch.nn as nn


class Model(nn.Module):
    """Rescales a whole tensor to [0, 1] using its global minimum and maximum."""

    def __init__(self, eps: float = 1e-6):
        super().__init__()
        self.eps = eps

    def forward(self, x):
        lo = x.min()
        hi = x.max()
        return (x - lo) / (hi - lo + self.eps)


def get_inputs():
    return [torch.randn(24, 3, 512, 512) * 10.0 + 4.0]


def get_init_inputs():
    return []
