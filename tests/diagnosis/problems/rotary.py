"""Rotary positions: the two halves of each head rotated by the position's angles."""

import torch
from torch import nn

batch = 2
heads = 3
length = 17
head_size = 20


class Model(nn.Module):
    def __init__(self, length, head_size):
        super().__init__()
        frequency = 10000.0 ** (-torch.arange(head_size // 2) * 2.0 / head_size)
        angle = torch.arange(length)[:, None] * frequency
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def forward(self, x):
        first, second = x.chunk(2, dim=-1)
        return torch.cat((first * self.cos - second * self.sin, second * self.cos + first * self.sin), dim=-1)


def get_inputs():
    return [torch.randn(batch, heads, length, head_size)]


def get_init_inputs():
    return [length, head_size]
