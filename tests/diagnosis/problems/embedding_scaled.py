"""Token rows times the root of the width, plus position rows that begin at the second."""

import math

import torch
from torch import nn

vocabulary = 45
width = 22
batch = 4
length = 13
first = 2


class Model(nn.Module):
    def __init__(self, vocabulary, length, width, first):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length + first, width)
        self.first = first

    def forward(self, ids):
        places = torch.arange(ids.size(1), device=ids.device) + self.first
        return self.tokens(ids) * math.sqrt(self.tokens.embedding_dim) + self.positions(places)


def get_inputs():
    return [torch.randint(0, vocabulary, (batch, length))]


def get_init_inputs():
    return [vocabulary, length, width, first]
