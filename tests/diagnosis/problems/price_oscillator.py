"""A stochastic oscillator with its exponential average, and the drawdown from the highest price so far."""

import torch
import torch.nn.functional as F
from torch import nn

series = 4
steps = 150


class Model(nn.Module):
    def __init__(self, span, smooth):
        super().__init__()
        self.span = span
        self.smooth = smooth

    def forward(self, high, low, close):
        """The range is that of the last `span` steps, of fewer at the start."""
        pad = (self.span - 1, 0)
        top = F.max_pool1d(F.pad(high, pad, value=float("-inf")), self.span, stride=1)
        bottom = -F.max_pool1d(F.pad(-low, pad, value=float("-inf")), self.span, stride=1)
        place = (close - bottom) / (top - bottom + 0.01)
        average = place[:, 0]
        line = [average]
        for step in range(1, place.size(1)):
            average = self.smooth * place[:, step] + (1 - self.smooth) * average
            line.append(average)
        return place, torch.stack(line, dim=1), close / close.cummax(dim=1).values - 1


def get_inputs():
    close = 20 * torch.exp(torch.cumsum(torch.randn(series, steps) * 0.04, dim=1))
    return [close + torch.rand(series, steps), close - torch.rand(series, steps), close]


def get_init_inputs():
    return [14, 0.3]
