"""Rows of a table by integer index, scaled as at the entry of a transformer."""

import torch
from torch import nn

batch = 6
length = 9
vocabulary = 40
width = 24


class Model(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)
        self.factor = float(width) ** 0.5

    def forward(self, ids):
        return self.table(ids) * self.factor


def get_inputs():
    return [torch.randint(0, vocabulary, (batch, length))]


def get_init_inputs():
    return [vocabulary, width]
