"""Scaled dot product attention, more keys than queries."""

import torch
import torch.nn.functional as F
from torch import nn

batch = 2
heads = 3
queries = 19
keys = 27
head_size = 24


class Model(nn.Module):
    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v)


def get_inputs():
    return [
        torch.randn(batch, heads, queries, head_size) * 2,
        torch.randn(batch, heads, keys, head_size) * 2,
        torch.randn(batch, heads, keys, head_size),
    ]


def get_init_inputs():
    return []
