import torch
import torch.nn as nn


class Model(nn.Module):
    """Bias and ReLU on float16 activations."""

    def __init__(self, features):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(features).half())

    def forward(self, x):
        return torch.relu(x + self.bias)


rows = 16384
features = 4096


def get_inputs():
    return [torch.randn(rows, features).to(torch.float16)]


def get_init_inputs():
    return [features]
