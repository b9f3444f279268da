"""Causal attention whose scores fall with the distance, at a rate of each head."""

import math

import torch
from torch import nn

batch = 2
heads = 5
length = 21
head_size = 12


class Model(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.register_buffer("slopes", 2.0 ** (-torch.arange(heads) * 0.8))

    def forward(self, q, k, v):
        place = torch.arange(q.size(2), device=q.device)
        distance = (place[:, None] - place[None, :]).to(q.dtype)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        scores = scores - self.slopes[:, None, None] * distance
        scores = scores.masked_fill(distance < 0, float("-inf"))
        return torch.softmax(scores, dim=-1) @ v


def get_inputs():
    return [
        torch.randn(batch, heads, length, head_size) * 2,
        torch.randn(batch, heads, length, head_size),
        torch.randn(batch, heads, length, head_size),
    ]


def get_init_inputs():
    return [heads]
