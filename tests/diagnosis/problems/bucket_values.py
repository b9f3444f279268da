"""Which bucket each integer falls into (right bound), and the value of the bucket."""

import torch
from torch import nn

edges = 22
rows = 9
width = 37


class Model(nn.Module):
    def forward(self, borders, keys, table):
        bucket = torch.searchsorted(borders, keys, right=True)
        return bucket, table[bucket]


def get_inputs():
    borders = torch.sort(torch.randint(0, 60, (edges,))).values
    return [borders, torch.randint(-3, 64, (rows, width)), torch.randn(edges + 1)]


def get_init_inputs():
    return []
