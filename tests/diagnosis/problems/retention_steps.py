"""Linear attention whose state decays at a rate of each head; the state goes on from one that is given."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, q, k, v, rate, state):
        outputs = []
        for t in range(q.size(2)):
            state = rate.view(-1, 1, 1) * state + k[:, :, t].unsqueeze(3) * v[:, :, t].unsqueeze(2)
            outputs.append((q[:, :, t].unsqueeze(3) * state).sum(dim=2))
        return torch.stack(outputs, dim=2), state


def get_inputs():
    q, k = torch.randn(2, 3, 20, 6), torch.randn(2, 3, 20, 6) * 0.5
    rate = torch.tensor([0.7, 0.85, 0.93])
    return [q, k, torch.randn(2, 3, 20, 5), rate, torch.randn(2, 3, 6, 5)]


def get_init_inputs():
    return []
