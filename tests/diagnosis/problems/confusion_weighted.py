"""Confusion matrix with weights: rows are true classes, columns predicted ones; each row sums to one."""

import torch
from torch import nn

samples = 120
classes = 7


class Model(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.classes = classes

    def forward(self, scores, truth, weight):
        cell = truth * self.classes + scores.argmax(1)
        counts = torch.zeros(self.classes**2, dtype=weight.dtype, device=weight.device)
        counts = counts.index_add(0, cell, weight).view(self.classes, self.classes)
        return counts / (counts.sum(1, keepdim=True) + 0.5)


def get_inputs():
    return [torch.randn(samples, classes), torch.randint(0, classes, (samples,)), torch.rand(samples) + 0.1]


def get_init_inputs():
    return [classes]
