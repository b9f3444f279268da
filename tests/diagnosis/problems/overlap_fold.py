"""Overlapping patches are centred, weighted and folded back, each pixel divided by its patches."""

import torch
import torch.nn.functional as F
from torch import nn

batch = 2
channels = 5
height = 11
width = 9


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(channels * 9) + 0.5)

    def forward(self, x):
        size = x.shape[-2:]
        patches = F.unfold(x, 3, padding=1, stride=2)
        patches = patches - patches.mean(dim=1, keepdim=True)
        ones = F.unfold(torch.ones_like(x[:, :1]), 3, padding=1, stride=2)
        folded = F.fold(patches * self.weight[:, None], size, 3, padding=1, stride=2)
        return folded / F.fold(ones, size, 3, padding=1, stride=2)


def get_inputs():
    return [torch.randn(batch, channels, height, width) + 1]


def get_init_inputs():
    return [channels]
