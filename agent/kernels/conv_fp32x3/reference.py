"""A two-dimensional convolution."""

import torch
import torch.nn as nn

batch_size = 8
in_channels = 64
out_channels = 128
height = 256
width = 256


class Model(nn.Module):
    """3x3 convolution with stride 1, same padding and a bias."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.conv(x)
        return y


def get_inputs():  # type: ignore[no-untyped-def]
    return [torch.randn(batch_size, in_channels, height, width)]


def get_init_inputs():  # type: ignore[no-untyped-def]
    return [in_channels, out_channels]
