"""Causal attention of grouped heads, the first features of each head rotated in pairs by position."""

import math

import torch
from torch import nn

batch = 2
heads = 6
groups = 2
length = 14
head_size = 20
rotated = 8


class Model(nn.Module):
    def __init__(self, length, rotated):
        super().__init__()
        self.rotated = rotated
        angle = torch.arange(length)[:, None] * 50.0 ** (-torch.arange(rotated // 2) * 2.0 / rotated)
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def rotate(self, x):
        turned, rest = x[..., : self.rotated], x[..., self.rotated :]
        even, odd = turned[..., 0::2], turned[..., 1::2]
        pairs = torch.stack((even * self.cos - odd * self.sin, even * self.sin + odd * self.cos), dim=-1)
        return torch.cat((pairs.flatten(-2), rest), dim=-1)

    def forward(self, q, k, v):
        share = q.size(1) // k.size(1)
        q, k = self.rotate(q), self.rotate(k).repeat_interleave(share, dim=1)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(later, float("-inf"))
        return torch.softmax(scores, dim=-1) @ v.repeat_interleave(share, dim=1)


def get_inputs():
    return [
        torch.randn(batch, heads, length, head_size) * 2,
        torch.randn(batch, groups, length, head_size),
        torch.randn(batch, groups, length, head_size),
    ]


def get_init_inputs():
    return [length, rotated]
