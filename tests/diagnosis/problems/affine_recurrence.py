"""A recurrence h = a h + b over the middle dimension, from a state that is given."""

import torch
from torch import nn

batch = 4
steps = 90
width = 7


class Model(nn.Module):
    def forward(self, a, b, state):
        states = []
        for t in range(a.size(1)):
            state = a[:, t] * state + b[:, t]
            states.append(state)
        return torch.stack(states, dim=1)


def get_inputs():
    a = torch.rand(batch, steps, width) * 0.6 + 0.38
    return [a, torch.randn(batch, steps, width), torch.randn(batch, width) * 3]


def get_init_inputs():
    return []
