"""Minimum pooling over a sequence, its last window kept though it hangs over the end."""

import torch
import torch.nn.functional as F
from torch import nn

batch = 3
channels = 6
length = 30


class Model(nn.Module):
    def forward(self, x):
        return -F.max_pool1d(-x, 4, stride=3, padding=1, ceil_mode=True)


def get_inputs():
    return [torch.randn(batch, channels, length) + 0.8]


def get_init_inputs():
    return []
