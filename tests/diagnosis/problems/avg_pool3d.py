"""Average pooling of volumes with another window in depth."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool = nn.AvgPool3d((2, 3, 3), stride=(2, 2, 2), padding=(0, 1, 1))

    def forward(self, x):
        return self.pool(x)


def get_inputs():
    return [torch.randn(2, 3, 8, 11, 15)]


def get_init_inputs():
    return []
