"""Columns picked by an index that may count from the end, each scaled."""

import torch
from torch import nn

rows = 30
columns = 17
picked = 28


class Model(nn.Module):
    def forward(self, x, index, scale):
        return x[:, index] * scale


def get_inputs():
    return [torch.randn(rows, columns), torch.randint(-columns, columns, (picked,)), torch.randn(picked)]


def get_init_inputs():
    return []
