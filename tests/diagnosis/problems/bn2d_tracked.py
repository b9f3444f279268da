"""BatchNorm2d by the statistics of the batch; running statistics are updated in place."""

import torch
import torch.nn.functional as F
from torch import nn

batch = 5
channels = 9
height = 4
width = 7


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x, running_mean, running_var):
        running_mean.lerp_(x.mean(dim=(0, 2, 3)), 0.2)
        running_var.lerp_(x.var(dim=(0, 2, 3)), 0.2)
        y = F.batch_norm(x, None, None, self.weight, self.bias, training=True)
        return F.leaky_relu(y, 0.1), running_mean.clone(), running_var.clone()


def get_inputs():
    x = torch.randn(batch, channels, height, width) * 1.5 - 0.4
    return [x, torch.randn(channels), torch.rand(channels) + 0.5]


def get_init_inputs():
    return [channels]
