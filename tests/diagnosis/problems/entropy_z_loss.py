"""Weighted, smoothed cross entropy with an ignored label, and a penalty on the log of the normaliser."""

import torch
import torch.nn.functional as F
from torch import nn

batch = 3
steps = 17
classes = 45
smoothing = 0.15
ignored = -100
penalty = 0.05


class Model(nn.Module):
    def __init__(self, smoothing, ignored, penalty):
        super().__init__()
        self.smoothing, self.ignored, self.penalty = smoothing, ignored, penalty

    def forward(self, logits, targets, weight):
        rows, labels = logits.flatten(0, 1), targets.flatten()
        loss = F.cross_entropy(
            rows, labels, weight, ignore_index=self.ignored, label_smoothing=self.smoothing
        )
        kept = labels != self.ignored
        normaliser = torch.logsumexp(rows, dim=-1)
        return loss + self.penalty * (normaliser.square() * kept).sum() / kept.sum()


def get_inputs():
    targets = torch.randint(0, classes, (batch, steps))
    targets[:, ::4] = ignored
    logits = torch.randn(batch, steps, classes) * 3
    logits[:, ::4] += 2
    return [logits, targets, torch.rand(classes) * 1.8 + 0.2]


def get_init_inputs():
    return [smoothing, ignored, penalty]
