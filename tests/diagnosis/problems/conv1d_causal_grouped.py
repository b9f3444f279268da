"""A causal dilated convolution in groups: padded on the left alone."""

import torch
import torch.nn.functional as F
from torch import nn

batch = 3
inner = 12
outer = 18
groups = 6
length = 41
dilation = 4


class Model(nn.Module):
    def __init__(self, inner, outer, groups, dilation):
        super().__init__()
        self.left = 2 * dilation
        self.conv = nn.Conv1d(inner, outer, 3, dilation=dilation, groups=groups)

    def forward(self, x):
        return self.conv(F.pad(x, (self.left, 0)))


def get_inputs():
    return [torch.randn(batch, inner, length)]


def get_init_inputs():
    return [inner, outer, groups, dilation]
