"""A state space layer whose step, input and output maps change over time."""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def forward(self, x, step, decay, enter, leave, skip):
        step = F.softplus(step)
        state = x.new_zeros(x.size(0), x.size(2), decay.size(1))
        outputs = []
        for t in range(x.size(1)):
            keep = torch.exp(step[:, t].unsqueeze(2) * decay)
            state = keep * state + (step[:, t] * x[:, t]).unsqueeze(2) * enter[:, t].unsqueeze(1)
            outputs.append((state * leave[:, t].unsqueeze(1)).sum(dim=2) + skip * x[:, t])
        return torch.stack(outputs, dim=1)


def get_inputs():
    x, step = torch.randn(2, 25, 6), torch.randn(2, 25, 6)
    decay = -torch.rand(6, 12) - 0.2
    return [x, step, decay, torch.randn(2, 25, 12), torch.randn(2, 25, 12), torch.randn(6)]


def get_init_inputs():
    return []
