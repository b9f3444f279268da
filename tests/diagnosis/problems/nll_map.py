"""Negative log likelihood of each pixel, with class weights and one ignored class."""

import torch
import torch.nn.functional as F
from torch import nn

batch = 3
classes = 7
height = 9
width = 8
ignored = 2


class Model(nn.Module):
    def __init__(self, classes, ignored):
        super().__init__()
        self.register_buffer("weight", torch.rand(classes) + 0.5)
        self.ignored = ignored

    def forward(self, likelihood, target):
        return F.nll_loss(likelihood, target, weight=self.weight, ignore_index=self.ignored, reduction="none")


def get_inputs():
    return [
        torch.log_softmax(torch.randn(batch, classes, height, width) * 2, dim=1),
        torch.randint(0, classes, (batch, height, width)),
    ]


def get_init_inputs():
    return [classes, ignored]
