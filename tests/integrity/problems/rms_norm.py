"""RMSNorm with a weight."""

import torch
from torch import nn

rows = 18
features = 72
eps = 1e-6


class Model(nn.Module):
    def __init__(self, features, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(features))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + self.eps) * self.weight


def get_inputs():
    return [torch.randn(rows, features)]


def get_init_inputs():
    return [features, eps]
