"""Mean of the embeddings of each row of ids; the padding id does not count."""

import torch
from torch import nn

vocabulary = 40
width = 18
rows = 21
length = 9
padding = 0


class Model(nn.Module):
    def __init__(self, vocabulary, width, padding):
        super().__init__()
        self.table = nn.EmbeddingBag(vocabulary, width, mode="mean", padding_idx=padding)

    def forward(self, ids):
        return self.table(ids)


def get_inputs():
    ids = torch.randint(1, vocabulary, (rows, length))
    used = torch.randint(1, length, (rows, 1))
    return [ids.masked_fill(torch.arange(length)[None, :] >= used, padding)]


def get_init_inputs():
    return [vocabulary, width, padding]
