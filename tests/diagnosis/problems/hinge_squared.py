"""Mean squared hinge loss against labels of plus and minus one."""

import torch
from torch import nn

rows = 29
columns = 23
margin = 1.5


class Model(nn.Module):
    def __init__(self, margin):
        super().__init__()
        self.margin = margin

    def forward(self, prediction, label):
        return torch.clamp(self.margin - prediction * label, min=0).square().mean()


def get_inputs():
    return [torch.randn(rows, columns) * 2, torch.randint(0, 2, (rows, columns)).float() * 2 - 1]


def get_init_inputs():
    return [margin]
