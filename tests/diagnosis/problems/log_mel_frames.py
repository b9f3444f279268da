"""Log energies of mel bands of overlapping Hann frames, with the mean over time of each band taken off."""

import math

import torch
from torch import nn

batch = 2
frame = 30
hop = 12
frames = 9
bands = 6


class Model(nn.Module):
    def __init__(self, frame, hop, bands):
        super().__init__()
        self.frame, self.hop = frame, hop
        self.filters = nn.Parameter(torch.rand(bands, frame // 2 + 1))

    def forward(self, signal):
        n = torch.arange(self.frame, device=signal.device)
        window = 0.5 - 0.5 * torch.cos(2 * math.pi * n / self.frame)
        pieces = signal.unfold(1, self.frame, self.hop) * window
        bins = torch.arange(self.filters.size(1), device=signal.device)
        angle = 2 * math.pi * n[:, None] * bins / self.frame
        power = (pieces @ angle.cos()).square() + (pieces @ angle.sin()).square()
        energy = (power @ self.filters.T).clamp(min=1e-5).log()
        return energy - energy.mean(dim=1, keepdim=True)


def get_inputs():
    return [torch.randn(batch, hop * (frames - 1) + frame)]


def get_init_inputs():
    return [frame, hop, bands]
