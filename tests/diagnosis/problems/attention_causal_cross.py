"""Causal attention of fewer queries than keys, as scaled_dot_product_attention aligns it."""

import torch
import torch.nn.functional as F
from torch import nn

batch = 3
heads = 2
queries = 13
keys = 22
head_size = 18


class Model(nn.Module):
    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def get_inputs():
    return [
        torch.randn(batch, heads, queries, head_size) * 2,
        torch.randn(batch, heads, keys, head_size) * 2,
        torch.randn(batch, heads, keys, head_size),
    ]


def get_init_inputs():
    return []
