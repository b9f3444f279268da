"""Quantile (pinball) loss of several forecasts for each target, weighted by sample."""

import torch
from torch import nn

samples = 37
levels = 5


class Model(nn.Module):
    def forward(self, forecast, target, quantiles, weight):
        error = target[:, None] - forecast
        loss = torch.maximum(quantiles * error, (quantiles - 1) * error)
        return (loss.sum(1) * weight).sum() / weight.sum()


def get_inputs():
    forecast = torch.randn(samples, levels)
    quantiles = torch.tensor([0.05, 0.2, 0.4, 0.7, 0.9])
    return [forecast, torch.randn(samples), quantiles, torch.rand(samples) + 0.1]


def get_init_inputs():
    return []
