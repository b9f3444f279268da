"""Bilinear resizing by two factors that do not divide the sizes."""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self, tall, wide):
        super().__init__()
        self.factors = (tall, wide)

    def forward(self, x):
        return F.interpolate(x, scale_factor=self.factors, mode="bilinear", align_corners=False)


def get_inputs():
    return [torch.randn(2, 3, 11, 16)]


def get_init_inputs():
    return [1.7, 0.6]
