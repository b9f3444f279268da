"""One LAMB step: gradients clipped by their norm over all rows, a trust ratio for each row."""

import torch
from torch import nn

rows = 9
width = 70


class Model(nn.Module):
    def __init__(self, rate, beta1, beta2, eps, decay, most):
        super().__init__()
        self.rate, self.beta1, self.beta2, self.eps, self.decay, self.most = (
            rate,
            beta1,
            beta2,
            eps,
            decay,
            most,
        )

    def forward(self, weight, grad, first, second, steps):
        """Steps: how many each row has taken before this one."""
        grad = grad * (self.most / (grad.norm() + 1e-6)).clamp(max=1.0)
        steps = (steps + 1)[:, None]
        first = self.beta1 * first + (1 - self.beta1) * grad
        second = self.beta2 * second + (1 - self.beta2) * grad.square()
        mean = first / (1 - self.beta1**steps)
        spread = (second / (1 - self.beta2**steps)).sqrt()
        update = mean / (spread + self.eps) + self.decay * weight
        trust = weight.norm(dim=1, keepdim=True) / update.norm(dim=1, keepdim=True)
        return weight - self.rate * trust * update, first, second


def get_inputs():
    weight = torch.randn(rows, width) * (torch.rand(rows, 1) + 0.3)
    grad = torch.randn(rows, width) * (torch.rand(rows, 1) + 0.1)
    first, second = torch.randn(rows, width) * 0.3, torch.rand(rows, width) * 0.4 + 0.02
    return [weight, grad, first, second, torch.randint(0, 12, (rows,))]


def get_init_inputs():
    return [0.05, 0.9, 0.97, 0.01, 0.3, 6.0]
