import torch
from torch import nn


class Model(nn.Module):
    """The sum of each row up to its length, by running sums."""

    def forward(self, x, lengths):
        return x.cumsum(1).gather(1, lengths.unsqueeze(1) - 1).squeeze(1)


def get_inputs():
    return [torch.randn(24, 96), torch.randint(1, 97, (24,))]


def get_init_inputs():
    return []
