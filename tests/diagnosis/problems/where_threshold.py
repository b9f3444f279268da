"""Above a threshold for each row scaled, elsewhere bounded below."""

import torch
from torch import nn

batch = 3
rows = 34
columns = 30
factor = 1.7
floor = -0.6


class Model(nn.Module):
    def __init__(self, factor, floor):
        super().__init__()
        self.factor = factor
        self.floor = floor

    def forward(self, x, threshold):
        return torch.where(x > threshold, x * self.factor, x.clamp(min=self.floor))


def get_inputs():
    return [torch.randn(batch, rows, columns), torch.randn(rows, 1) * 0.5]


def get_init_inputs():
    return [factor, floor]
