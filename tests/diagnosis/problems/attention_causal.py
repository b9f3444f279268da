"""Causal attention over one sequence."""

import math

import torch
from torch import nn

batch = 2
heads = 3
length = 21
head_size = 20


class Model(nn.Module):
    def __init__(self, length):
        super().__init__()
        self.length = length

    def forward(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        future = torch.ones(self.length, self.length, dtype=torch.bool, device=q.device).triu(1)
        return torch.softmax(scores.masked_fill(future, float("-inf")), dim=-1) @ v


def get_inputs():
    return [
        torch.randn(batch, heads, length, head_size) * 2,
        torch.randn(batch, heads, length, head_size) * 2,
        torch.randn(batch, heads, length, head_size),
    ]


def get_init_inputs():
    return [length]
