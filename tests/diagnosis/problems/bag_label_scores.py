"""Weighted bags of words scored by cosine with each label; smoothed cross entropy with class weights."""

import torch
import torch.nn.functional as F
from torch import nn

vocabulary = 40
width = 16
labels = 9
bags = 12
entries = 77


class Model(nn.Module):
    def __init__(self, vocabulary, width, labels, scale, smoothing):
        super().__init__()
        self.words = nn.Parameter(torch.randn(vocabulary, width))
        self.labels = nn.Parameter(torch.randn(labels, width))
        self.scale = scale
        self.smoothing = smoothing

    def forward(self, ids, offsets, share, target, importance):
        """Id zero is padding; a target of -1 does not count; bag 5 is empty."""
        bag = F.embedding_bag(ids, self.words, offsets, mode="sum", per_sample_weights=share, padding_idx=0)
        scores = self.scale * F.normalize(bag, dim=1) @ F.normalize(self.labels, dim=1).T
        loss = F.cross_entropy(scores, target, importance, ignore_index=-1, label_smoothing=self.smoothing)
        return scores, loss


def get_inputs():
    offsets = torch.randint(1, entries - 4, (bags,)).sort().values
    offsets[0] = 0
    offsets[5] = offsets[6]
    ids = torch.randint(0, vocabulary, (entries,))
    ids[::6] = 0
    target = torch.randint(0, labels, (bags,))
    target[3] = -1
    target[9] = -1
    return [ids, offsets, torch.rand(entries) * 2 - 0.5, target, torch.rand(labels) * 2 + 0.2]


def get_init_inputs():
    return [vocabulary, width, labels, 6.0, 0.2]
