"""Discounted sums of what follows; an episode that ends at a step takes nothing from later ones."""

import torch
from torch import nn

rows = 6
steps = 130


class Model(nn.Module):
    def __init__(self, gamma):
        super().__init__()
        self.gamma = gamma

    def forward(self, rewards, done, last):
        going = 1.0 - done.to(rewards.dtype)
        total, returns = last, []
        for t in range(rewards.size(1) - 1, -1, -1):
            total = rewards[:, t] + self.gamma * going[:, t] * total
            returns.append(total)
        return torch.stack(returns[::-1], dim=1)


def get_inputs():
    done = (torch.rand(rows, steps) < 0.05).int()
    return [torch.randn(rows, steps), done, torch.randn(rows) * 4]


def get_init_inputs():
    return [0.97]
