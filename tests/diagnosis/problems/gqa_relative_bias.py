"""Causal attention of grouped queries with a learned bias for each head and distance up to a furthest."""

import torch
from torch import nn

batch = 2
heads = 6
groups = 2
steps = 21
width = 12
furthest = 8


class Model(nn.Module):
    def __init__(self, heads, furthest):
        super().__init__()
        self.furthest = furthest
        self.distance_bias = nn.Parameter(torch.randn(heads, furthest + 1))

    def forward(self, q, k, v):
        k = k.repeat_interleave(q.size(1) // k.size(1), dim=1)
        v = v.repeat_interleave(q.size(1) // v.size(1), dim=1)
        scores = q @ k.transpose(-1, -2) * q.size(-1) ** -0.5
        place = torch.arange(q.size(2), device=q.device)
        distance = (place[:, None] - place[None, :]).clamp(0, self.furthest)
        scores = scores + self.distance_bias[:, distance]
        scores = scores.masked_fill(place[None, :] > place[:, None], float("-inf"))
        return torch.softmax(scores, dim=-1) @ v


def get_inputs():
    q = torch.randn(batch, heads, steps, width) * 1.5
    k, v = torch.randn(2, batch, groups, steps, width)
    return [q, k, v]


def get_init_inputs():
    return [heads, furthest]
