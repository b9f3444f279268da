"""Norms and softmax, alone and behind one another, and what comes before and after."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 3


class Model(nn.Module):
    def __init__(self, channels, groups):
        super().__init__()
        self.group = nn.GroupNorm(groups, channels)
        self.batch = nn.BatchNorm2d(channels)
        self.instance = nn.InstanceNorm2d(channels, affine=True)
        self.layer = nn.LayerNorm([9, 11])
        self.scale = nn.Parameter(torch.ones(channels, 1, 1) * 1.5)

    def forward(self, x):
        a = F.relu(self.group(F.gelu(x))) * self.scale
        b = torch.tanh(self.batch(x) + self.instance(x))
        c = F.softmax(self.layer(x) * 2, dim=1)
        d = F.log_softmax(x.flatten(2), dim=-1).mean(1)
        e = x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-6) * self.scale
        return a, b, c, d, e


def get_inputs():
    return [torch.randn(BATCH, 12, 9, 11)]


def get_init_inputs():
    return [12, 4]
