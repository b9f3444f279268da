import torch
import torch.nn as nn


class Model(nn.Module):
    """Linear, scale by a constant, then clamp."""

    def __init__(self, in_features, out_features, scale, lo, hi, bias=True):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features, bias=bias)
        self.scale = scale
        self.lo = lo
        self.hi = hi

    def forward(self, x):
        x = self.linear(x)
        x = x * self.scale
        return torch.clamp(x, self.lo, self.hi)


batch_size = 2048
in_features = 1024
out_features = 1024


def get_inputs():
    return [torch.randn(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features, 2.0, -1.5, 1.5]
