"""Quantile regression of a distribution of returns with the Huber loss, as distributional agents have it."""

import torch
from torch import nn

batch = 11
quantiles = 13
targets = 37
kappa = 0.7


class Model(nn.Module):
    def __init__(self, kappa):
        super().__init__()
        self.kappa = kappa

    def forward(self, predicted, target):
        n = predicted.size(1)
        levels = (torch.arange(n, device=predicted.device) + 0.5) / n
        error = target[:, None, :] - predicted[:, :, None]
        size = error.abs()
        huber = torch.where(size <= self.kappa, 0.5 * size.square(), self.kappa * (size - 0.5 * self.kappa))
        weight = (levels[None, :, None] - (error < 0).float()).abs()
        return (weight * huber / self.kappa).mean(dim=2).sum(dim=1)


def get_inputs():
    return [torch.randn(batch, quantiles), torch.randn(batch, targets) * 1.5 + 0.5]


def get_init_inputs():
    return [kappa]
