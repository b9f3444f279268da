"""Cross attention with logits that are bounded by a tanh before a bias of keys is added."""

import math

import torch
from torch import nn

batch = 3
heads = 2
queries = 10
keys = 37
head_size = 24
cap = 1.7


class Model(nn.Module):
    def __init__(self, cap):
        super().__init__()
        self.cap = cap

    def forward(self, q, k, v, bias):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        scores = self.cap * torch.tanh(scores / self.cap) + bias[:, None, None, :]
        return torch.softmax(scores, dim=-1) @ v


def get_inputs():
    return [
        torch.randn(batch, heads, queries, head_size) * 2,
        torch.randn(batch, heads, keys, head_size),
        torch.randn(batch, heads, keys, head_size),
        torch.randn(batch, keys) * 1.5,
    ]


def get_init_inputs():
    return [cap]
