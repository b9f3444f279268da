"""Weighted sum of the embeddings of each bag."""

import torch
from torch import nn

vocabulary = 50
width = 21
bags = 17
entries = 78


class Model(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.table = nn.EmbeddingBag(vocabulary, width, mode="sum")

    def forward(self, ids, offsets, weights):
        return self.table(ids, offsets, per_sample_weights=weights)


def get_inputs():
    offsets = torch.randperm(entries - 1)[:bags].sort().values
    offsets[0] = 0
    return [torch.randint(0, vocabulary, (entries,)), offsets, torch.randn(entries)]


def get_init_inputs():
    return [vocabulary, width]
