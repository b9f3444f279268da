"""Batch norm whose running statistics are plain means over all batches so far, updated in place."""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x, running_mean, running_var, seen):
        seen.add_(1)
        share = 1.0 / seen
        running_mean.lerp_(x.mean(dim=(0, 2, 3)), share)
        running_var.lerp_(x.var(dim=(0, 2, 3)), share)
        y = F.batch_norm(x, None, None, self.weight, self.bias, training=True)
        return y, running_mean.clone(), running_var.clone()


def get_inputs():
    x = torch.randn(4, 7, 5, 6) * 1.3 + 0.6
    return [x, torch.randn(7), torch.rand(7) + 0.5, torch.full((1,), 3.0)]


def get_init_inputs():
    return [7]
