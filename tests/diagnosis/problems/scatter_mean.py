"""Values scattered along the columns and averaged together with what stood there."""

import torch
from torch import nn

rows = 11
columns = 15
values = 40


class Model(nn.Module):
    def forward(self, base, index, source):
        return base.scatter_reduce(1, index, source, reduce="mean", include_self=True)


def get_inputs():
    index = torch.randint(0, columns - 2, (rows, values))
    return [torch.randn(rows, columns), index, torch.randn(rows, values)]


def get_init_inputs():
    return []
