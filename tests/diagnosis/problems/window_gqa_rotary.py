"""Causal attention of grouped queries within a window, after rotary embedding by halves; heads merged."""

import torch
from torch import nn

batch = 2
heads = 6
groups = 2
steps = 37
width = 16


class Model(nn.Module):
    def __init__(self, window, base):
        super().__init__()
        self.window = window
        self.base = base

    def rotate(self, x):
        half = x.size(-1) // 2
        frequency = self.base ** (-torch.arange(half, device=x.device, dtype=x.dtype) / half)
        angle = torch.arange(x.size(2), device=x.device, dtype=x.dtype)[:, None] * frequency
        first, second = x[..., :half], x[..., half:]
        cos, sin = angle.cos(), angle.sin()
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)

    def forward(self, q, k, v):
        share = q.size(1) // k.size(1)
        q = self.rotate(q)
        k = self.rotate(k).repeat_interleave(share, dim=1)
        v = v.repeat_interleave(share, dim=1)
        scores = q @ k.transpose(-1, -2) / q.size(-1) ** 0.5
        place = torch.arange(q.size(2), device=q.device)
        behind = place[:, None] - place[None, :]
        scores = scores.masked_fill((behind < 0) | (behind >= self.window), float("-inf"))
        y = torch.softmax(scores, dim=-1) @ v
        return y.transpose(1, 2).reshape(q.size(0), q.size(2), -1)


def get_inputs():
    q = torch.randn(batch, heads, steps, width) * 1.5
    k, v = torch.randn(2, batch, groups, steps, width) * 1.2
    return [q, k, v]


def get_init_inputs():
    return [9, 500.0]
