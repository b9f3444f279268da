"""Rows of a source added to rows of a base, with a factor; several go to the same row."""

import torch
from torch import nn

nodes = 17
edges = 90
width = 12


class Model(nn.Module):
    def __init__(self, alpha):
        super().__init__()
        self.alpha = alpha

    def forward(self, base, index, source):
        return torch.index_add(base, 0, index, source, alpha=self.alpha)


def get_inputs():
    return [torch.randn(nodes, width), torch.randint(0, nodes, (edges,)), torch.randn(edges, width)]


def get_init_inputs():
    return [0.5]
