"""Border filled by reflection, with another width on each side."""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return F.pad(x, (3, 1, 2, 4), mode="reflect")


def get_inputs():
    return [torch.randn(2, 4, 11, 15)]


def get_init_inputs():
    return []
