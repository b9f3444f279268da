"""An LSTM step with peepholes: input and forget gate see the old cell, the output gate the new one."""

import torch
from torch import nn

batch = 5
inner = 7
hidden = 9


class Model(nn.Module):
    def __init__(self, inner, hidden):
        super().__init__()
        self.w_x = nn.Parameter(torch.randn(4 * hidden, inner) * 0.4)
        self.w_h = nn.Parameter(torch.randn(4 * hidden, hidden) * 0.4)
        self.bias = nn.Parameter(torch.randn(4 * hidden) * 0.2)
        self.peep = nn.Parameter(torch.randn(3, hidden) * 0.5)

    def forward(self, x, h, c):
        i, f, g, o = (x @ self.w_x.t() + h @ self.w_h.t() + self.bias).chunk(4, dim=1)
        i = torch.sigmoid(i + self.peep[0] * c)
        f = torch.sigmoid(f + self.peep[1] * c)
        c = f * c + i * torch.tanh(g)
        o = torch.sigmoid(o + self.peep[2] * c)
        return o * torch.tanh(c), c


def get_inputs():
    return [torch.randn(batch, inner), torch.randn(batch, hidden), torch.randn(batch, hidden) * 1.5]


def get_init_inputs():
    return [inner, hidden]
