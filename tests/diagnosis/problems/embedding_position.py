"""Token rows plus position rows."""

import torch
from torch import nn

batch = 5
length = 11
vocabulary = 50
width = 20


class Model(nn.Module):
    def __init__(self, vocabulary, length, width):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.randn(length, width))

    def forward(self, ids):
        return self.tokens(ids) + self.positions


def get_inputs():
    return [torch.randint(0, vocabulary, (batch, length))]


def get_init_inputs():
    return [vocabulary, length, width]
