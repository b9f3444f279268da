"""A gated recurrence over time from a given state, an RMS norm over the channels, a skip of the input."""

import torch
from torch import nn

batch = 3
steps = 45
channels = 20


class Model(nn.Module):
    def __init__(self, channels, eps):
        super().__init__()
        self.decay = nn.Parameter(torch.randn(channels))
        self.weight = nn.Parameter(torch.ones(channels))
        self.skip = nn.Parameter(torch.rand(channels) + 0.5)
        self.eps = eps

    def forward(self, x, gate, state):
        keep = torch.sigmoid(gate + self.decay)
        rows = []
        for step in range(x.size(1)):
            state = keep[:, step] * state + (1 - keep[:, step]) * x[:, step]
            rows.append(state)
        h = torch.stack(rows, dim=1)
        scale = torch.rsqrt(h.square().mean(dim=-1, keepdim=True) + self.eps)
        return h * scale * self.weight + self.skip * x, state


def get_inputs():
    x, gate = torch.randn(2, batch, steps, channels)
    return [x, gate + 1, torch.randn(batch, channels) * 2]


def get_init_inputs():
    return [channels, 0.1]
