"""SwiGLU with bounds: interleaved gate and value, a sharpened sigmoid and one added to the value."""

import torch
from torch import nn

batch = 3
tokens = 7
hidden = 18


class Model(nn.Module):
    def __init__(self, hidden, limit):
        super().__init__()
        self.limit = limit
        self.bias = nn.Parameter(torch.randn(2 * hidden) * 0.2)

    def forward(self, x):
        x = x + self.bias
        gate = x[..., 0::2].clamp(max=self.limit)
        value = x[..., 1::2].clamp(-self.limit, self.limit)
        return gate * torch.sigmoid(1.702 * gate) * (value + 1)


def get_inputs():
    return [torch.randn(batch, tokens, 2 * hidden) * 2]


def get_init_inputs():
    return [hidden, 2.5]
