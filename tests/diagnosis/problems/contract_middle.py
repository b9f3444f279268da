"""Contracts the middle dimension of one operand with the first of the other: b k m, k n -> b n m."""

import torch
from torch import nn

batch = 3
inner = 22
rows = 19
columns = 14


class Model(nn.Module):
    def forward(self, x, w):
        return torch.einsum("bkm,kn->bnm", x, w)


def get_inputs():
    return [torch.randn(batch, inner, rows), torch.randn(inner, columns)]


def get_init_inputs():
    return []
