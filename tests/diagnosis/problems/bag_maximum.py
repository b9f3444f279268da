"""Maximum of the embeddings of each bag."""

import torch
from torch import nn

vocabulary = 44
width = 26
bags = 19
entries = 83


class Model(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.table = nn.EmbeddingBag(vocabulary, width, mode="max")

    def forward(self, ids, offsets):
        return self.table(ids, offsets)


def get_inputs():
    offsets = torch.randperm(entries - 1)[:bags].sort().values
    offsets[0] = 0
    return [torch.randint(0, vocabulary, (entries,)), offsets]


def get_init_inputs():
    return [vocabulary, width]
