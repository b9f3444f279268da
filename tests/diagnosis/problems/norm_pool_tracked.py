"""Local response norm, an overhanging average pool, batch norm by the batch with running statistics."""

import torch
import torch.nn.functional as F
from torch import nn

batch = 3
channels = 7
height = 7
width = 9


class Model(nn.Module):
    def __init__(self, channels, momentum):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.momentum = momentum

    def forward(self, x, mean, var):
        x = F.local_response_norm(x, 4, alpha=2.0, beta=0.75, k=1.0)
        x = F.avg_pool2d(x, (3, 2), stride=2, padding=(1, 0), ceil_mode=True, count_include_pad=False)
        mean = torch.lerp(mean, x.mean(dim=(0, 2, 3)), self.momentum)
        var = torch.lerp(var, x.var(dim=(0, 2, 3)), self.momentum)
        return F.batch_norm(x, None, None, self.weight, self.bias, training=True), mean, var


def get_inputs():
    x = torch.randn(batch, channels, height, width) * 1.5 + 0.5
    return [x, torch.randn(channels) * 0.5, torch.rand(channels) + 0.5]


def get_init_inputs():
    return [channels, 0.2]
