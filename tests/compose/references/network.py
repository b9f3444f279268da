"""Products and convolutions that stay torch's, pools, depthwise convolutions, attention, losses."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 4


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.pointwise = nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        return F.relu(self.pointwise(self.depthwise(x)) + x)


class Model(nn.Module):
    def __init__(self, channels, classes):
        super().__init__()
        self.first = nn.Conv2d(3, channels, 3, stride=2)
        self.block = Block(channels)
        self.query = nn.Linear(channels, 2 * channels)
        self.last = nn.Linear(channels, classes)

    def forward(self, x, wanted):
        x = F.max_pool2d(F.gelu(self.first(x)), 3, stride=2, padding=1)
        x = F.avg_pool2d(self.block(x), 2)
        tokens = x.flatten(2).transpose(1, 2)
        query, key = self.query(tokens).chunk(2, dim=-1)
        weights = F.softmax(query @ key.transpose(1, 2) / query.shape[-1] ** 0.5, dim=-1)
        pooled = (weights @ tokens).mean(1)
        scores = self.last(F.dropout(pooled, 0.5, self.training))
        loss = F.cross_entropy(scores, wanted) + F.cross_entropy(scores, wanted, label_smoothing=0.1)
        loss = loss + F.mse_loss(pooled, pooled.roll(1, 0))
        return scores, loss, F.adaptive_avg_pool2d(x, 1).flatten(1)


def get_inputs():
    return [torch.randn(BATCH, 3, 37, 37), torch.randint(0, 5, (BATCH,))]


def get_init_inputs():
    return [8, 5]
