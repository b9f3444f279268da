"""Activations, arithmetic, broadcasting, comparison, dtypes."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 6


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(features, 1))
        self.shift = nn.Parameter(torch.randn(features, 5))

    def forward(self, x, y):
        a = F.gelu(x * self.scale + self.shift)
        b = F.silu(x) - F.mish(y) * F.elu(x, 0.5) + F.softplus(y)
        c = F.hardswish(x) + F.hardtanh(y) * F.leaky_relu(x, 0.2) + F.relu6(y) + F.selu(x)
        d = torch.where(x > y, x, -y).clamp(min=-0.5) / (1 + torch.exp(-y)) + torch.sigmoid(x) ** 3
        e = (x.abs() + 1).log() + y.square().sqrt() + torch.rsqrt(x * x + 2) + F.gelu(y, approximate="tanh")
        f = torch.maximum(x, y) + torch.minimum(x, y[:, :1]) - torch.atan2(x, y.abs() + 1) + torch.sign(x)
        g = (x > 0).float() + (y <= x).to(torch.int64) + torch.floor(x) + torch.tanh(y).pow(2)
        return a, b, c, d, e, f, g


def get_inputs():
    return [torch.randn(BATCH, 7, 5), torch.randn(BATCH, 7, 5)]


def get_init_inputs():
    return [7]
