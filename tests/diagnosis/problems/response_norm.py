"""Each element over a power of the squares in neighbouring channels."""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self, size, alpha, beta, base):
        super().__init__()
        self.size, self.alpha, self.beta, self.base = size, alpha, beta, base

    def forward(self, x):
        return F.local_response_norm(x, self.size, self.alpha, self.beta, self.base)


def get_inputs():
    return [torch.randn(2, 11, 6, 5) * 1.5]


def get_init_inputs():
    return [5, 0.6, 0.75, 1.3]
