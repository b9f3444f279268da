"""Rotary positions of an image: the first half of a head turns by rows, the second by columns."""

import torch
from torch import nn

batch = 2
heads = 2
height = 4
width = 5
head_size = 12


class Model(nn.Module):
    def __init__(self, width, base):
        super().__init__()
        self.width = width
        self.base = base

    def forward(self, x):
        quarter = x.size(3) // 4
        rate = self.base ** (-torch.arange(quarter, device=x.device, dtype=x.dtype) / quarter)
        place = torch.arange(x.size(2), device=x.device)
        parts = []
        for part, at in zip(x.chunk(2, dim=3), (place // self.width, place % self.width), strict=True):
            angle = at.to(x.dtype)[:, None] * rate
            even, odd = part[..., 0::2], part[..., 1::2]
            turned = (even * angle.cos() - odd * angle.sin(), even * angle.sin() + odd * angle.cos())
            parts.append(torch.stack(turned, dim=4).flatten(3))
        return torch.cat(parts, dim=3)


def get_inputs():
    return [torch.randn(batch, heads, height * width, head_size)]


def get_init_inputs():
    return [width, 50.0]
