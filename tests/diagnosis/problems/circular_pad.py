"""Sequences continued as if they were a ring."""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return F.pad(x, (4, 2), mode="circular")


def get_inputs():
    return [torch.randn(3, 8, 41)]


def get_init_inputs():
    return []
