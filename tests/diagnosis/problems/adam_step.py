"""One step of Adam, in place."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, rate, first, second, eps, step):
        super().__init__()
        self.rate, self.first, self.second, self.eps, self.step = rate, first, second, eps, step

    def forward(self, p, grad, m, v):
        m.mul_(self.first).add_(grad, alpha=1 - self.first)
        v.mul_(self.second).addcmul_(grad, grad, value=1 - self.second)
        mean = m / (1 - self.first**self.step)
        root = torch.sqrt(v / (1 - self.second**self.step)) + self.eps
        p.sub_(self.rate * mean / root)
        return p, m, v


def get_inputs():
    return [torch.randn(13, 37), torch.randn(13, 37), torch.randn(13, 37) * 0.3, torch.rand(13, 37) * 0.3]


def get_init_inputs():
    return [0.05, 0.9, 0.95, 1e-6, 4]
