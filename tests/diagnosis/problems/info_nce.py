"""Contrastive loss of pairs by their cosines: cross-entropy of rows and of columns, averaged."""

import torch
import torch.nn.functional as F
from torch import nn

pairs = 21
width = 16


class Model(nn.Module):
    def __init__(self, temperature):
        super().__init__()
        self.temperature = temperature

    def forward(self, a, b):
        scores = F.normalize(a, dim=1) @ F.normalize(b, dim=1).t() / self.temperature
        own = scores.diagonal()
        rows = torch.logsumexp(scores, dim=1) - own
        columns = torch.logsumexp(scores, dim=0) - own
        return 0.5 * (rows.mean() + columns.mean())


def get_inputs():
    return [torch.randn(pairs, width), torch.randn(pairs, width)]


def get_init_inputs():
    return [0.2]
