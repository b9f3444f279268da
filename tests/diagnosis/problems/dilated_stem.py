"""A grouped dilated convolution, batch norm by running statistics, hardswish, overlapping maximum pool."""

import torch
import torch.nn.functional as F
from torch import nn

batch = 2
channels = 6
wide = 10
groups = 2
height = 13
width = 10


class Model(nn.Module):
    def __init__(self, channels, wide, groups):
        super().__init__()
        self.conv = nn.Conv2d(channels, wide, 3, padding=2, dilation=2, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(wide, eps=0.01)
        self.norm.running_mean.normal_(0, 0.3)
        self.norm.running_var.uniform_(0.1, 0.6)
        self.norm.eval()

    def forward(self, x):
        y = self.norm(self.conv(x))
        return F.max_pool2d(F.hardswish(y), 3, stride=2, padding=1)


def get_inputs():
    return [torch.randn(batch, channels, height, width) * 1.5]


def get_init_inputs():
    return [channels, wide, groups]
