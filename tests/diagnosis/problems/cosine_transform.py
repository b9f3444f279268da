"""Orthonormal discrete cosine transform (type II) of each row and the energy of its upper half."""

import math

import torch
from torch import nn

rows = 8
size = 20


class Model(nn.Module):
    def forward(self, x):
        n = x.size(1)
        place = torch.arange(n, device=x.device, dtype=x.dtype)
        basis = torch.cos(math.pi / n * place[:, None] * (place[None, :] + 0.5)) * math.sqrt(2 / n)
        first = torch.where(place == 0, math.sqrt(0.5), 1.0).to(x.dtype)
        y = x @ (basis * first[:, None]).t()
        return y, y[:, n // 2 :].square().sum(1)


def get_inputs():
    return [torch.randn(rows, size) + 0.4]


def get_init_inputs():
    return []
