"""Content with each plane's mean and deviation taken from a style."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.eps = eps

    def forward(self, content, style):
        own = torch.sqrt(content.var(dim=(2, 3), keepdim=True) + self.eps)
        other = torch.sqrt(style.var(dim=(2, 3), keepdim=True) + self.eps)
        centred = content - content.mean(dim=(2, 3), keepdim=True)
        return centred / own * other + style.mean(dim=(2, 3), keepdim=True)


def get_inputs():
    return [torch.randn(2, 6, 5, 4) + 0.2, torch.randn(2, 6, 3, 3) * 1.6 + 0.7]


def get_init_inputs():
    return [1e-5]
