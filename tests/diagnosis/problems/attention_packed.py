"""Attention from one packed projection [batch, length, (q k v) heads size]."""

import torch
import torch.nn.functional as F
from torch import nn

batch = 2
length = 18
heads = 3
head_size = 14


class Model(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.heads = heads

    def forward(self, qkv):
        b, n, width = qkv.shape
        q, k, v = qkv.view(b, n, 3, self.heads, width // (3 * self.heads)).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, width // 3)


def get_inputs():
    return [torch.randn(batch, length, 3 * heads * head_size) * 1.5]


def get_init_inputs():
    return [heads]
