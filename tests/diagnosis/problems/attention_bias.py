"""Attention with a bias for each head and pair of positions."""

import math

import torch
from torch import nn

batch = 2
heads = 4
queries = 14
keys = 17
head_size = 12


class Model(nn.Module):
    def __init__(self, heads, queries, keys):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(heads, queries, keys))

    def forward(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)) + self.bias
        return torch.softmax(scores, dim=-1) @ v


def get_inputs():
    return [
        torch.randn(batch, heads, queries, head_size) * 2,
        torch.randn(batch, heads, keys, head_size) * 2,
        torch.randn(batch, heads, keys, head_size),
    ]


def get_init_inputs():
    return [heads, queries, keys]
