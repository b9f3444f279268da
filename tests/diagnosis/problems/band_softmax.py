"""Softmax along the rows of a band around the diagonal; outside of it everything is zero."""

import torch
from torch import nn

batch = 4
rows = 22
columns = 27
below = 3
above = 5


class Model(nn.Module):
    def __init__(self, below, above):
        super().__init__()
        self.below = below
        self.above = above

    def forward(self, x):
        band = torch.ones(x.shape[-2:], dtype=torch.bool, device=x.device)
        band = band.triu(-self.below) & band.tril(self.above)
        return torch.softmax(torch.where(band, x, float("-inf")), dim=-1)


def get_inputs():
    return [torch.randn(batch, rows, columns) * 1.5]


def get_init_inputs():
    return [below, above]
