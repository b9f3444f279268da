"""Row minimum of a linear layer, plus a bias that makes four dimensions."""

import torch
from torch import nn

batch = 9
in_features = 30
out_features = 14


class Model(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.bias = nn.Parameter(torch.randn(1, out_features, 1, 1))

    def forward(self, x):
        smallest = torch.min(self.linear(x), dim=1, keepdim=True)[0]
        return smallest + self.bias


def get_inputs():
    return [torch.randn(batch, in_features)]


def get_init_inputs():
    return [in_features, out_features]
