"""Mean over the kept steps of each sequence."""

import torch
from torch import nn

batch = 6
length = 23
width = 17


class Model(nn.Module):
    def forward(self, x, keep):
        weight = keep.unsqueeze(-1).to(x.dtype)
        return (x * weight).sum(dim=1) / weight.sum(dim=1).clamp(min=1)


def get_inputs():
    keep = torch.rand(batch, length) < 0.6
    keep[:, 0] = True
    return [torch.randn(batch, length, width) + 0.5, keep]


def get_init_inputs():
    return []
