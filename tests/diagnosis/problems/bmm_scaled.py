"""Scores of queries against keys, batch by batch."""

import math

import torch
from torch import nn

batch = 5
queries = 17
keys = 23
head_size = 20


class Model(nn.Module):
    def forward(self, q, k):
        return torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.size(-1))


def get_inputs():
    return [torch.randn(batch, queries, head_size), torch.randn(batch, keys, head_size)]


def get_init_inputs():
    return []
