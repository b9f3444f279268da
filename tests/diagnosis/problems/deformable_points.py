"""Deformable attention: each query and head mixes values sampled at its points; the query is added."""

import torch
import torch.nn.functional as F
from torch import nn

batch = 2
heads = 3
width = 6
rows = 5
columns = 8
queries = 17
points = 4


class Model(nn.Module):
    def __init__(self, rows, columns, heads):
        super().__init__()
        self.rows = rows
        self.columns = columns
        self.gain = nn.Parameter(torch.rand(heads) + 0.5)

    def forward(self, query, value, places, logits):
        """Value: batch, rows * columns, heads, width. Places: batch, queries, heads, points, x and y."""
        batch, queries, heads, points, _ = places.shape
        image = value.permute(0, 2, 3, 1).reshape(batch * heads, -1, self.rows, self.columns)
        grid = (2 * places - 1).transpose(1, 2).reshape(batch * heads, queries, points, 2)
        sampled = F.grid_sample(image, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
        share = torch.softmax(logits, dim=-1) * self.gain[:, None]
        share = share.transpose(1, 2).reshape(batch * heads, 1, queries, points)
        mixed = (sampled * share).sum(dim=-1).view(batch, heads, -1, queries)
        return query + mixed.permute(0, 3, 1, 2).reshape(batch, queries, -1)


def get_inputs():
    query = torch.randn(batch, queries, heads * width)
    value = torch.randn(batch, rows * columns, heads, width)
    places = torch.rand(batch, queries, heads, points, 2) * 1.2 - 0.1
    return [query, value, places, torch.randn(batch, queries, heads, points) * 1.5]


def get_init_inputs():
    return [rows, columns, heads]
