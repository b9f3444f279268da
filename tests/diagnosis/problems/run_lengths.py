"""How long each row has been on one side of a threshold: what lasts weighs less, and the longest stay."""

import torch
from torch import nn

rows = 9
steps = 101


class Model(nn.Module):
    def __init__(self, threshold):
        super().__init__()
        self.threshold = threshold

    def forward(self, x):
        high = x > self.threshold
        turn = torch.ones_like(high)
        turn[:, 1:] = high[:, 1:] != high[:, :-1]
        place = torch.arange(x.size(1), device=x.device)
        start = torch.cummax(torch.where(turn, place, 0), dim=1).values
        length = place - start + 1
        return x / torch.sqrt(length.to(x.dtype)), length.amax(dim=1)


def get_inputs():
    slow = torch.randn(rows, 13).repeat_interleave(8, dim=1)[:, :steps]
    return [slow + 0.25 * torch.randn(rows, steps)]


def get_init_inputs():
    return [0.25]
