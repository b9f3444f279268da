"""The mean of each segment's rows so far; segments lie one after another, with their bounds in `offsets`."""

import torch
from torch import nn

rows = 260
width = 5
segments = 13


class Model(nn.Module):
    def forward(self, x, offsets):
        place = torch.arange(x.size(0), device=x.device)
        segment = torch.searchsorted(offsets[1:], place, right=True)
        same = segment.unsqueeze(1) == segment.unsqueeze(0)
        seen = (same & (place.unsqueeze(1) >= place.unsqueeze(0))).to(x.dtype)
        return (seen @ x) / seen.sum(dim=1, keepdim=True)


def get_inputs():
    inner = torch.randperm(rows - 1)[: segments - 1].sort().values + 1
    offsets = torch.cat([torch.tensor([0]), inner, torch.tensor([rows])])
    return [torch.randn(rows, width), offsets]


def get_init_inputs():
    return []
