"""Attention by cosines with a temperature of each head, over the valid keys of each sample."""

import torch
import torch.nn.functional as F
from torch import nn

batch = 3
heads = 2
queries = 9
keys = 14
head_size = 10


class Model(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.log_scale = nn.Parameter(torch.full((heads,), 1.2))

    def forward(self, q, k, v, lengths):
        cosine = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(2, 3)
        scores = cosine * self.log_scale.exp().view(-1, 1, 1)
        beyond = torch.arange(k.size(2), device=k.device) >= lengths[:, None]
        scores = scores.masked_fill(beyond[:, None, None, :], float("-inf"))
        return torch.softmax(scores, dim=-1) @ v


def get_inputs():
    lengths = torch.randint(3, keys, (batch,))
    q = torch.randn(batch, heads, queries, head_size)
    k, v = (torch.randn(batch, heads, keys, head_size) for _ in range(2))
    return [q, k, v, lengths]


def get_init_inputs():
    return [heads]
