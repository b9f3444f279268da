import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Squeeze-and-excite: global average, two small dense layers, channel gate."""

    def __init__(self, channels, reduction):
        super().__init__()
        self.fc1 = nn.Linear(channels, channels // reduction)
        self.fc2 = nn.Linear(channels // reduction, channels)

    def forward(self, x):
        s = x.mean(dim=(2, 3))
        s = F.relu(self.fc1(s))
        s = F.hardsigmoid(self.fc2(s))
        return x * s[:, :, None, None]


batch = 64
channels = 192
reduction = 4


def get_inputs():
    return [torch.randn(batch, channels, 56, 56)]


def get_init_inputs():
    return [channels, reduction]
