"""Token, position and segment embeddings; positions count the tokens that are no padding."""

import torch
from torch import nn

vocabulary = 48
width = 24
batch = 4
length = 15
padding = 1


class Model(nn.Module):
    def __init__(self, vocabulary, length, width, padding):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length + padding + 1, width)
        self.segments = nn.Embedding(2, width)
        self.padding = padding

    def forward(self, ids, segments):
        kept = (ids != self.padding).long()
        places = torch.cumsum(kept, dim=1) * kept + self.padding
        return self.tokens(ids) + self.positions(places) + self.segments(segments)


def get_inputs():
    ids = torch.randint(2, vocabulary, (batch, length))
    padded = torch.randint(1, length // 2, (batch, 1))
    ids = ids.masked_fill(torch.arange(length)[None, :] < padded, padding)
    return [ids, torch.randint(0, 2, (batch, length))]


def get_init_inputs():
    return [vocabulary, length, width, padding]
