"""Queries and keys of a decoder: RMS norm of each head with a gain, then rotary positions from a start."""

import torch
from torch import nn

batch = 2
steps = 11
heads = 3
key_heads = 2
width = 40
base = 500.0
start = 5
eps = 0.01


class Model(nn.Module):
    def __init__(self, width, base, start, eps):
        super().__init__()
        self.base, self.start, self.eps = base, start, eps
        self.q_gain = nn.Parameter(torch.ones(width))
        self.k_gain = nn.Parameter(torch.ones(width))

    def forward(self, q, k):
        q = q * torch.rsqrt(q.square().mean(dim=-1, keepdim=True) + self.eps) * self.q_gain
        k = k * torch.rsqrt(k.square().mean(dim=-1, keepdim=True) + self.eps) * self.k_gain
        places = torch.arange(q.size(1), device=q.device) + self.start
        steps = torch.arange(0, q.size(-1), 2, device=q.device) / q.size(-1)
        angles = (places[:, None] * self.base**-steps)[:, None, :]
        return self.turn(q, angles.cos(), angles.sin()), self.turn(k, angles.cos(), angles.sin())

    def turn(self, x, cos, sin):
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def get_inputs():
    return [torch.randn(batch, steps, heads, width) * 0.2, torch.randn(batch, steps, key_heads, width) * 0.15]


def get_init_inputs():
    return [width, base, start, eps]
