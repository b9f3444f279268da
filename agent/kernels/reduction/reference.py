"""The mean of each channel over images and pixels: two runs of reduced dimensions."""

import torch
import torch.nn as nn

batch_size = 64
channels = 64
height = 128
width = 128


class Model(nn.Module):
    """Module that returns the mean over the images and pixels of each channel, `[channels]`."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mean(x, dim=(0, 2, 3))


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, channels, height, width)]


def get_init_inputs() -> list[int]:
    return []
