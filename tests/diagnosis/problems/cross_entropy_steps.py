"""Smoothed cross entropy over the classes of each step, with class weights and an ignored padding class."""

import torch
import torch.nn.functional as F
from torch import nn

batch = 5
classes = 14
length = 19
padding = 0
smoothing = 0.2


class Model(nn.Module):
    def __init__(self, classes, padding, smoothing):
        super().__init__()
        self.register_buffer("weight", torch.rand(classes) * 2 + 0.25)
        self.padding = padding
        self.smoothing = smoothing

    def forward(self, logits, target):
        return F.cross_entropy(
            logits, target, weight=self.weight, ignore_index=self.padding, label_smoothing=self.smoothing
        )


def get_inputs():
    target = torch.randint(1, classes, (batch, length))
    target[torch.rand(batch, length) < 0.3] = padding
    return [torch.randn(batch, classes, length) * 2, target]


def get_init_inputs():
    return [classes, padding, smoothing]
