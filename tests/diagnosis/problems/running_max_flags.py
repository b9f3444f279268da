"""The highest value since the last start flag, the flagged element included."""

import torch
from torch import nn

rows = 5
steps = 60


class Model(nn.Module):
    def forward(self, x, starts):
        run = torch.cumsum(starts, dim=1)
        place = torch.arange(x.size(1), device=x.device)
        seen = (run.unsqueeze(2) == run.unsqueeze(1)) & (place[:, None] >= place[None, :])
        return x.unsqueeze(1).masked_fill(~seen, float("-inf")).amax(dim=2)


def get_inputs():
    starts = (torch.rand(rows, steps) < 0.15).long()
    return [torch.randn(rows, steps) - 0.5, starts]


def get_init_inputs():
    return []
