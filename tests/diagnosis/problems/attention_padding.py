"""Attention over left-padded prompts: keys before a sample's start are masked."""

import math

import torch
from torch import nn

batch = 3
heads = 2
queries = 11
keys = 29
head_size = 16


class Model(nn.Module):
    def forward(self, q, k, v, keep):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        scores = scores.masked_fill(~keep[:, None, None, :], float("-inf"))
        return torch.softmax(scores, dim=-1) @ v


def get_inputs():
    padding = torch.randint(9, 21, (batch, 1))
    return [
        torch.randn(batch, heads, queries, head_size) * 2,
        torch.randn(batch, heads, keys, head_size) * 2,
        torch.randn(batch, heads, keys, head_size),
        torch.arange(keys)[None, :] >= padding,
    ]


def get_init_inputs():
    return []
