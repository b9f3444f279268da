"""Mean of the embeddings of each bag; some bags are empty."""

import torch
from torch import nn

vocabulary = 60
width = 22
bags = 26
entries = 90


class Model(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.table = nn.EmbeddingBag(vocabulary, width, mode="mean")

    def forward(self, ids, offsets):
        return self.table(ids, offsets)


def get_inputs():
    offsets = torch.randint(0, entries - 4, (bags,)).sort().values
    offsets[0] = 0
    offsets[7] = offsets[6]
    return [torch.randint(0, vocabulary, (entries,)), offsets]


def get_init_inputs():
    return [vocabulary, width]
