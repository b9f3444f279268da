"""Mean of all steps so far."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        steps = torch.arange(1, x.size(1) + 1, device=x.device, dtype=x.dtype)
        return torch.cumsum(x, dim=1) / steps.view(1, -1, 1)


def get_inputs():
    return [torch.randn(3, 60, 14)]


def get_init_inputs():
    return []
