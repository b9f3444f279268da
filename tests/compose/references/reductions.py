"""Sums, extremes, variances, norms and scans over each kind of dimension; one of them long."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 4


class Model(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x, z):
        rows = x.sum(-1) + x.mean(3) * x.amax(dim=-1)
        middle = x.amin((1, 2)) - x.var(dim=(1, 2)) + x.std(dim=(1, 2), unbiased=False)
        all_of_it = z.mean() + torch.log(z.abs().sum()) + z.max()
        kept = x / (x.norm(dim=1, keepdim=True) + 1e-6) + torch.logsumexp(x, dim=2, keepdim=True)
        least, at = x.min(dim=2)
        places = x.argmax(dim=2) + at + x.argmin(-1)[:, :, :1] + x.argmax() + z.max(dim=1)[1].sum()
        normal = F.normalize(x.flatten(1), p=1.0, dim=1) * (x > 3).any(dim=3).sum()
        return rows, middle, all_of_it, kept, places, least, normal, x.cumsum(1) + z.new_ones(1), x.cumsum(3), x.sum(0)


def get_inputs():
    return [torch.randn(BATCH, 6, 9, 33), torch.randn(BATCH, 9001)]


def get_init_inputs():
    return []
