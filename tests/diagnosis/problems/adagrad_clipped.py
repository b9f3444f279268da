"""One step of Adagrad in place, with a gradient of limited norm, weight decay and a falling rate."""

import torch
from torch import nn

rows = 17
columns = 21
rate = 0.3
rate_decay = 0.2
step = 6
greatest = 5.0
weight_decay = 0.1
eps = 0.05


class Model(nn.Module):
    def __init__(self, rate, rate_decay, step, greatest, weight_decay, eps):
        super().__init__()
        self.rate = rate / (1 + (step - 1) * rate_decay)
        self.greatest, self.weight_decay, self.eps = greatest, weight_decay, eps

    def forward(self, p, grad, total):
        grad = grad * (self.greatest / (grad.norm() + 1e-6)).clamp(max=1)
        grad = grad + self.weight_decay * p
        total.addcmul_(grad, grad)
        p.sub_(self.rate * grad / (total.sqrt() + self.eps))
        return p, total


def get_inputs():
    p, grad = torch.randn(2, rows, columns)
    return [p, grad, torch.rand(rows, columns) * 0.2]


def get_init_inputs():
    return [rate, rate_decay, step, greatest, weight_decay, eps]
