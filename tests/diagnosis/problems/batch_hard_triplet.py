"""Triplet loss of the hardest pairs; an anchor without positives does not count."""

import torch
import torch.nn.functional as F
from torch import nn

rows = 45
width = 9
classes = 6


class Model(nn.Module):
    def __init__(self, margin):
        super().__init__()
        self.margin = margin

    def forward(self, x, label):
        x = F.normalize(x, dim=1)
        distance = (x[:, None] - x[None, :]).square().sum(dim=-1).clamp(min=1e-12).sqrt()
        same = label[:, None] == label[None, :]
        other = ~torch.eye(x.size(0), dtype=torch.bool, device=x.device)
        positive = distance.masked_fill(~(same & other), 0.0).amax(dim=1)
        negative = distance.masked_fill(same, float("inf")).amin(dim=1)
        counts = (same & other).any(dim=1)
        loss = F.relu(positive - negative + self.margin).masked_fill(~counts, 0.0)
        return loss.sum() / counts.sum(), positive, negative


def get_inputs():
    label = torch.randint(0, classes, (rows,))
    label[7] = classes
    return [torch.randn(rows, width) + 0.3, label]


def get_init_inputs():
    return [0.8]
