"""Counts visits in place and gives a bonus of beta / sqrt(count) for each visit, by the new counts."""

import torch
from torch import nn

states = 29
visits = 150


class Model(nn.Module):
    def __init__(self, beta):
        super().__init__()
        self.beta = beta

    def forward(self, counts, ids, reward):
        counts.index_add_(0, ids, torch.ones_like(ids))
        return counts.clone(), reward + self.beta / counts[ids].float().sqrt()


def get_inputs():
    return [torch.randint(0, 9, (states,)), torch.randint(0, states, (visits,)), torch.randn(visits)]


def get_init_inputs():
    return [0.7]
