"""Mean of the embeddings of each bag, where the offsets hold the end of the last bag too."""

import torch
from torch import nn

vocabulary = 45
width = 19
bags = 22
entries = 101


class Model(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.table = nn.EmbeddingBag(vocabulary, width, mode="mean", include_last_offset=True)

    def forward(self, ids, offsets):
        return self.table(ids, offsets)


def get_inputs():
    offsets = torch.randperm(entries - 1)[: bags + 1].sort().values + 1
    offsets[0] = 0
    offsets[-1] = entries
    return [torch.randint(0, vocabulary, (entries,)), offsets]


def get_init_inputs():
    return [vocabulary, width]
