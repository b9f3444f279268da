"""Attention in which three query heads share each key and value head."""

import math

import torch
from torch import nn

batch = 2
heads = 6
shared = 3
queries = 15
keys = 18
head_size = 16


class Model(nn.Module):
    def __init__(self, shared):
        super().__init__()
        self.shared = shared

    def forward(self, q, k, v):
        k = k.repeat_interleave(self.shared, dim=1)
        v = v.repeat_interleave(self.shared, dim=1)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        return torch.softmax(scores, dim=-1) @ v


def get_inputs():
    return [
        torch.randn(batch, heads, queries, head_size) * 2,
        torch.randn(batch, heads // shared, keys, head_size) * 2,
        torch.randn(batch, heads // shared, keys, head_size),
    ]


def get_init_inputs():
    return [shared]
