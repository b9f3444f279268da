"""Exponential moving average along the rows; it begins with the first element."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, alpha):
        super().__init__()
        self.alpha = alpha

    def forward(self, x):
        state = x[:, 0]
        out = [state]
        for t in range(1, x.size(1)):
            state = self.alpha * x[:, t] + (1 - self.alpha) * state
            out.append(state)
        return torch.stack(out, dim=1)


def get_inputs():
    return [torch.randn(12, 90) + 1]


def get_init_inputs():
    return [0.3]
