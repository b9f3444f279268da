"""Convolutions of each channel by itself: of several features, transposed, of one to three dimensions."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 3
LIBRARY_OPS = "none"


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.plain = nn.Conv2d(channels, channels, (3, 2), stride=(2, 1), padding=1, groups=channels)
        self.several = nn.Conv2d(channels, 3 * channels, 3, dilation=(1, 2), groups=channels)
        self.turned = nn.ConvTranspose2d(
            channels, channels, 3, stride=2, padding=1, output_padding=1, groups=channels
        )
        self.more = nn.ConvTranspose1d(channels, 2 * channels, 4, padding=1, dilation=2, groups=channels)
        self.volume = nn.ConvTranspose3d(
            channels, channels, (1, 3, 2), stride=(1, 2, 3), groups=channels, bias=False
        )

    def forward(self, x):
        a = F.relu(self.plain(x)), self.several(x * 2).sum(1), self.turned(x).tanh()
        return *a, self.more(x[:, :, 0]), self.volume(x.unsqueeze(2)) + 1


def get_inputs():
    return [torch.randn(BATCH, 4, 7, 9)]


def get_init_inputs():
    return [4]
