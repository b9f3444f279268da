"""The highest level so far along time, fading with its age, and the place where it was reached."""

import torch
from torch import nn

batch = 3
steps = 70
channels = 9


class Model(nn.Module):
    def __init__(self, fade):
        super().__init__()
        self.fade = fade

    def forward(self, x):
        peak, place = torch.cummax(x, dim=1)
        now = torch.arange(x.size(1), device=x.device)[None, :, None]
        return peak * self.fade ** (now - place), place


def get_inputs():
    return [torch.round(torch.randn(batch, steps, channels) * 2) / 2 - 3]


def get_init_inputs():
    return [0.97]
