"""The pooling of a detector's neck: three maximum poolings one after the other, joined with their input."""

import torch
import torch.nn as nn

batch_size = 64
channels = 256
height = width = 40
kernel_size = 5


class Model(nn.Module):
    """Windows of 5, 9 and 13 by repeated pooling with stride 1, concatenated along the channels."""

    def __init__(self, kernel_size: int) -> None:
        super().__init__()
        self.pool = nn.MaxPool2d(kernel_size, stride=1, padding=kernel_size // 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        once = self.pool(x)
        twice = self.pool(once)
        return torch.cat([x, once, twice, self.pool(twice)], dim=1)


def get_inputs():
    return [torch.randn(batch_size, channels, height, width)]


def get_init_inputs():
    return [kernel_size]
