"""Writes new keys into a cache in place, each sample at its own position, and sums what is valid."""

import torch
from torch import nn

batch = 4
slots = 13
heads = 3
width = 10


class Model(nn.Module):
    def forward(self, cache, new, position):
        rows = torch.arange(cache.size(0))
        cache[rows, position] = new
        valid = torch.arange(cache.size(1))[None, :] <= position[:, None]
        total = (cache * valid[:, :, None, None]).sum(dim=1)
        return cache, total / (position + 1)[:, None, None]


def get_inputs():
    position = torch.tensor([0, 5, 12, 7])
    return [torch.randn(batch, slots, heads, width), torch.randn(batch, heads, width), position]


def get_init_inputs():
    return []
