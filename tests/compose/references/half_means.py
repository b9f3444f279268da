"""A mean in another dtype than its source has."""

import torch
import torch.nn as nn

BATCH = 6


class Model(nn.Module):
    def forward(self, x):
        middle = x.mean(dim=-1, keepdim=True, dtype=torch.float32)
        return x.float() - middle, x.mean(1), x.sum(1, dtype=torch.float32)


def get_inputs():
    return [torch.randn(BATCH, 40, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
