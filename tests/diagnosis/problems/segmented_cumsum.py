"""Running sum that begins anew wherever `starts` is not zero."""

import torch
from torch import nn

rows = 5
columns = 230


class Model(nn.Module):
    def forward(self, x, starts):
        segment = (starts != 0).long().cumsum(dim=1)
        same = segment.unsqueeze(2) == segment.unsqueeze(1)
        earlier = torch.ones(x.size(1), x.size(1), dtype=torch.bool, device=x.device).tril()
        return ((same & earlier).to(x.dtype) * x.unsqueeze(1)).sum(dim=2)


def get_inputs():
    return [torch.randn(rows, columns), (torch.rand(rows, columns) < 0.06).int()]


def get_init_inputs():
    return []
