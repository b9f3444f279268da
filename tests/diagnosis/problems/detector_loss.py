"""Losses of a detector by sample: focal loss of the classes, smooth L1 of the boxes of the positives."""

import torch
import torch.nn.functional as F
from torch import nn

batch = 7
anchors = 53
classes = 5


class Model(nn.Module):
    def __init__(self, alpha, beta):
        super().__init__()
        self.alpha = alpha
        self.beta = beta

    def forward(self, logits, boxes, labels, targets):
        """Labels: the class from one on, zero for background, -1 for anchors that do not count."""
        positive = labels > 0
        count = positive.sum(dim=1).clamp(min=1)
        wanted = F.one_hot(labels.clamp(min=0), logits.size(-1) + 1)[..., 1:].to(logits.dtype)
        p = torch.sigmoid(logits)
        right = p * wanted + (1 - p) * (1 - wanted)
        weight = self.alpha * wanted + (1 - self.alpha) * (1 - wanted)
        plain = F.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
        focal = (weight * (1 - right).square() * plain).sum(dim=-1)
        focal = focal.masked_fill(labels < 0, 0.0).sum(dim=1) / count
        distance = F.smooth_l1_loss(boxes, targets, beta=self.beta, reduction="none").sum(dim=-1)
        distance = distance.masked_fill(~positive, 0.0).sum(dim=1) / count
        return focal, distance


def get_inputs():
    labels = torch.randint(-1, classes + 1, (batch, anchors))
    labels[3] = labels[3].clamp(max=0)
    logits = torch.randn(batch, anchors, classes) * 2
    boxes, targets = torch.randn(2, batch, anchors, 4)
    return [logits, boxes, labels, targets]


def get_init_inputs():
    return [0.25, 0.5]
