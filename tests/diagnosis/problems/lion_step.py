"""One step of Lion: parameters move by the sign of a blend; the momentum is blended by another share."""

import torch
from torch import nn

rows = 8
columns = 11


class Model(nn.Module):
    def __init__(self, rate, beta_sign, beta_state, decay):
        super().__init__()
        self.rate = rate
        self.beta_sign = beta_sign
        self.beta_state = beta_state
        self.decay = decay

    def forward(self, parameter, gradient, momentum):
        blend = self.beta_sign * momentum + (1 - self.beta_sign) * gradient
        moved = parameter * (1 - self.rate * self.decay) - self.rate * torch.sign(blend)
        kept = self.beta_state * momentum + (1 - self.beta_state) * gradient
        return moved, kept


def get_inputs():
    return [torch.randn(rows, columns), torch.randn(rows, columns), torch.randn(rows, columns)]


def get_init_inputs():
    return [0.05, 0.7, 0.9, 0.4]
