"""A linear-chain conditional random field over padded sequences: log partition and score of the tags."""

import torch
from torch import nn

batch = 5
steps = 19
tags = 7


class Model(nn.Module):
    def __init__(self, tags):
        super().__init__()
        self.start = nn.Parameter(torch.randn(tags))
        self.turn = nn.Parameter(torch.randn(tags, tags))
        self.end = nn.Parameter(torch.randn(tags))

    def forward(self, emission, path, length):
        """`turn[a, b]` scores tag b after tag a; steps from `length` on are padding."""
        alpha = self.start + emission[:, 0]
        gold = self.start[path[:, 0]] + emission[:, 0].gather(1, path[:, :1])[:, 0]
        for step in range(1, emission.size(1)):
            inside = step < length
            following = torch.logsumexp(alpha[:, :, None] + self.turn, dim=1) + emission[:, step]
            alpha = torch.where(inside[:, None], following, alpha)
            here = emission[:, step].gather(1, path[:, step, None])[:, 0]
            score = self.turn[path[:, step - 1], path[:, step]] + here
            gold = gold + torch.where(inside, score, 0.0)
        last = path.gather(1, length[:, None] - 1)[:, 0]
        return torch.logsumexp(alpha + self.end, dim=1), gold + self.end[last]


def get_inputs():
    emission = torch.randn(batch, steps, tags) * 1.5
    path = torch.randint(0, tags, (batch, steps))
    return [emission, path, torch.randint(3, steps + 1, (batch,))]


def get_init_inputs():
    return [tags]
