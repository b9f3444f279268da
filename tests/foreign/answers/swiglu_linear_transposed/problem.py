import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Gated linear unit: silu(x W1) * (x W3), no biases."""

    def __init__(self, dim, hidden):
        super().__init__()
        self.w1 = nn.Linear(dim, hidden, bias=False)
        self.w3 = nn.Linear(dim, hidden, bias=False)

    def forward(self, x):
        return F.silu(self.w1(x)) * self.w3(x)


dim = 512
hidden = 1365
tokens = 2048


def get_inputs():
    return [torch.randn(2, tokens // 2, dim)]


def get_init_inputs():
    return [dim, hidden]
