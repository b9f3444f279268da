"""A gated recurrent unit over a short sequence."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, inner, hidden):
        super().__init__()
        self.w_x = nn.Parameter(torch.randn(3 * hidden, inner) * 0.4)
        self.w_h = nn.Parameter(torch.randn(3 * hidden, hidden) * 0.4)
        self.b_x = nn.Parameter(torch.randn(3 * hidden) * 0.2)
        self.b_h = nn.Parameter(torch.randn(3 * hidden) * 0.2)

    def forward(self, x, h):
        states = []
        for t in range(x.size(1)):
            xr, xz, xn = (x[:, t] @ self.w_x.t() + self.b_x).chunk(3, dim=1)
            hr, hz, hn = (h @ self.w_h.t() + self.b_h).chunk(3, dim=1)
            reset, update = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
            new = torch.tanh(xn + reset * hn)
            h = (1 - update) * new + update * h
            states.append(h)
        return torch.stack(states, dim=1)


def get_inputs():
    return [torch.randn(3, 9, 6), torch.randn(3, 8)]


def get_init_inputs():
    return [6, 8]
