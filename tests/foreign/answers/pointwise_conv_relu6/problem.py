import torch
import torch.nn as nn


class Model(nn.Module):
    """1x1 convolution without bias, then ReLU6."""

    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size=1, bias=False)
        self.act = nn.ReLU6()

    def forward(self, x):
        return self.act(self.conv(x))


def get_inputs():
    return [torch.rand(8, 64, 160, 160)]


def get_init_inputs():
    return [64, 128]
