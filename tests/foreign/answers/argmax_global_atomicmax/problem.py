import torch
import torch.nn as nn


class Model(nn.Module):
    """Per-row peak: its position (int64) and its height."""

    def __init__(self):
        super().__init__()

    def forward(self, heatmap):
        flat = heatmap.flatten(1)
        peak, pos = flat.max(dim=1)
        return peak, pos


batch = 64


def get_inputs():
    # a shuffled ramp has no equal values
    n = 512 * 512
    maps = torch.stack([torch.randperm(n) for _ in range(batch)]).float().div_(n).sub_(0.5)
    return [maps.view(batch, 512, 512)]


def get_init_inputs():
    return []
