"""The covariance of the variables of each sample over its observations."""

import torch
from torch import nn

batch = 4
variables = 18
observations = 13


class Model(nn.Module):
    def forward(self, x):
        centred = x - x.mean(dim=-1, keepdim=True)
        return centred @ centred.transpose(1, 2) / (x.size(-1) - 1)


def get_inputs():
    return [torch.randn(batch, variables, observations) + torch.randn(batch, variables, 1)]


def get_init_inputs():
    return []
