"""Tokens, segments and positions looked up, added and normalised."""

import torch
from torch import nn

vocabulary = 70
segments = 3
batch = 4
length = 15
width = 28


class Model(nn.Module):
    def __init__(self, vocabulary, segments, length, width):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.segment = nn.Embedding(segments, width)
        self.position = nn.Embedding(length + 2, width)
        self.norm = nn.LayerNorm(width, eps=1e-5)

    def forward(self, ids, segment):
        place = torch.arange(ids.size(1), device=ids.device)
        return self.norm(self.token(ids) + self.segment(segment) + self.position(place))


def get_inputs():
    return [torch.randint(0, vocabulary, (batch, length)), torch.randint(0, segments, (batch, length))]


def get_init_inputs():
    return [vocabulary, segments, length, width]
