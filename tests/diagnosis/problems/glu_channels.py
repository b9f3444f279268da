"""Gated linear unit over the channels of a sequence."""

import torch
import torch.nn.functional as F
from torch import nn

batch = 3
channels = 14
length = 25


class Model(nn.Module):
    def forward(self, x):
        return F.glu(x, dim=1)


def get_inputs():
    return [torch.randn(batch, 2 * channels, length) * 2]


def get_init_inputs():
    return []
