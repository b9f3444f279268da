"""Squared multi class margin loss of each row, with a weight for each class."""

import torch
import torch.nn.functional as F
from torch import nn

rows = 46
classes = 9
margin = 0.8


class Model(nn.Module):
    def __init__(self, classes, margin):
        super().__init__()
        self.register_buffer("weight", torch.rand(classes) * 2 + 0.2)
        self.margin = margin

    def forward(self, scores, target):
        return F.multi_margin_loss(
            scores, target, p=2, margin=self.margin, weight=self.weight, reduction="none"
        )


def get_inputs():
    return [torch.randn(rows, classes), torch.randint(0, classes, (rows,))]


def get_init_inputs():
    return [classes, margin]
