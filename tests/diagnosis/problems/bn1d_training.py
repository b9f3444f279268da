"""BatchNorm over [N, C, L] in training mode; the updated running statistics are returned."""

import torch
import torch.nn.functional as F
from torch import nn

batch = 6
channels = 19
length = 11


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x, running_mean, running_var):
        mean, var = running_mean.clone(), running_var.clone()
        y = F.batch_norm(x, mean, var, self.weight, self.bias, training=True, momentum=0.15, eps=1e-4)
        return y, mean, var


def get_inputs():
    x = torch.randn(batch, channels, length) * 2 + 0.7
    return [x, torch.randn(channels), torch.rand(channels) + 0.5]


def get_init_inputs():
    return [channels]
