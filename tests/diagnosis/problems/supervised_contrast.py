"""Supervised contrastive loss of each anchor: how likely its own class is by cosine similarity."""

import torch
import torch.nn.functional as F
from torch import nn

samples = 37
width = 20
classes = 6
temperature = 0.3


class Model(nn.Module):
    def __init__(self, temperature):
        super().__init__()
        self.temperature = temperature

    def forward(self, features, labels):
        unit = F.normalize(features, dim=-1)
        scores = unit @ unit.T / self.temperature
        own = torch.eye(labels.numel(), dtype=torch.bool, device=labels.device)
        log_prob = scores - torch.logsumexp(scores.masked_fill(own, float("-inf")), dim=-1, keepdim=True)
        alike = (labels[:, None] == labels[None, :]) & ~own
        count = alike.sum(dim=-1)
        return -(log_prob * alike).sum(dim=-1) / count.clamp(min=1)


def get_inputs():
    labels = torch.arange(samples) % classes
    return [torch.randn(samples, width) + 0.4, labels]


def get_init_inputs():
    return [temperature]
