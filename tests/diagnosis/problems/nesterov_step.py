"""One step of SGD with Nesterov momentum and weight decay; weights and momentum are updated in place."""

import torch
from torch import nn

rows = 21
columns = 43


class Model(nn.Module):
    def __init__(self, lr, momentum, decay):
        super().__init__()
        self.lr, self.momentum, self.decay = lr, momentum, decay

    def forward(self, weight, velocity, grad):
        step = grad + self.decay * weight
        velocity.mul_(self.momentum).add_(step)
        weight.sub_(self.lr * (step + self.momentum * velocity))
        return weight.clone(), velocity.clone()


def get_inputs():
    return [torch.randn(rows, columns), torch.randn(rows, columns), torch.randn(rows, columns)]


def get_init_inputs():
    return [0.05, 0.8, 0.02]
