"""A decoding step of a selective state space layer; its state and window are kept in place."""

import torch
import torch.nn.functional as F
from torch import nn

batch = 3
width = 10
states = 6
rank = 4
taps = 4


class Model(nn.Module):
    def __init__(self, width, states, rank, taps):
        super().__init__()
        self.sizes = [rank, states, states]
        self.conv_weight = nn.Parameter(torch.randn(width, taps) * 0.6)
        self.conv_bias = nn.Parameter(torch.randn(width) * 0.3)
        self.project = nn.Parameter(torch.randn(rank + 2 * states, width) * 0.4)
        self.step_weight = nn.Parameter(torch.randn(width, rank) * 0.5)
        self.step_bias = nn.Parameter(torch.randn(width) * 0.5)
        self.a_log = nn.Parameter(torch.rand(width, states) * 1.5 - 0.3)
        self.skip = nn.Parameter(torch.randn(width))

    def forward(self, x, z, window, state):
        window.copy_(torch.roll(window, -1, dims=2))
        window[:, :, -1] = x
        u = F.silu((window * self.conv_weight).sum(2) + self.conv_bias)
        low, enter, leave = (u @ self.project.t()).split(self.sizes, dim=1)
        step = F.softplus(low @ self.step_weight.t() + self.step_bias)
        state.mul_(torch.exp(-step[:, :, None] * torch.exp(self.a_log)))
        state.add_((step * u)[:, :, None] * enter[:, None, :])
        y = (state * leave[:, None, :]).sum(2) + self.skip * u
        return y * F.silu(z), window, state


def get_inputs():
    x, z = torch.randn(batch, width), torch.randn(batch, width)
    return [x, z, torch.randn(batch, width, taps), torch.randn(batch, width, states)]


def get_init_inputs():
    return [width, states, rank, taps]
