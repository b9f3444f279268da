"""Cosine embedding loss of each pair, with a margin for the unlike ones."""

import torch
import torch.nn.functional as F
from torch import nn

pairs = 67
width = 19
margin = 0.1


class Model(nn.Module):
    def __init__(self, margin):
        super().__init__()
        self.margin = margin

    def forward(self, a, b, like):
        return F.cosine_embedding_loss(a, b, like, margin=self.margin, reduction="none")


def get_inputs():
    a = torch.randn(pairs, width) * 2
    return [a, a * 0.4 + torch.randn(pairs, width), torch.randint(0, 2, (pairs,)).float() * 2 - 1]


def get_init_inputs():
    return [margin]
