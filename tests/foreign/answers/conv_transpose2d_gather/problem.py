import torch
import torch.nn as nn


class Model(nn.Module):
    """Upsampling by a transposed convolution, then tanh."""

    def __init__(self, in_channels, out_channels, kernel_size=4, stride=2, padding=1):
        super().__init__()
        self.up = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, stride=stride, padding=padding)

    def forward(self, x):
        return torch.tanh(self.up(x))


batch_size = 16
cin = 64
cout = 16
h = 48
w = 48


def get_inputs():
    return [torch.randn(batch_size, cin, h, w)]


def get_init_inputs():
    return [cin, cout]
