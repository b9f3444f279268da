"""Numbers of 16 bits, which are computed with as float: float16 and bfloat16."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 3


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)
        self.last = nn.Linear(features, 8)
        self.scale = nn.Parameter(torch.ones(features) * 1.5)

    def forward(self, x, y):
        a = F.gelu(self.norm(x.to(self.scale.dtype))).to(x.dtype) * 2
        b = F.softmax(x, dim=-1) + x.mean(1, keepdim=True)
        c = F.relu(y * self.scale.to(y.dtype) + 0.5).sum(1)
        d = torch.cumsum(y, dim=-1).clamp(-3, 3)
        e = F.avg_pool1d(x, 2) - F.max_pool1d(x, 2)
        f = self.last(y.to(self.scale.dtype)).tanh().bfloat16()
        return a, b, c, d, e, f


def get_inputs():
    return [torch.randn(BATCH, 6, 20).half(), torch.randn(BATCH, 5, 20).bfloat16()]


def get_init_inputs():
    return [20]
