import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """First half of a transformer MLP."""

    def __init__(self, in_features: int, out_features: int):
        super().__init__()
        self.fc = nn.Linear(in_features, out_features)

    def forward(self, x):
        return F.gelu(self.fc(x), approximate="tanh")


in_features = 768
out_features = 3072
tokens = 1024


def get_inputs():
    return [torch.randn(tokens, in_features)]


def get_init_inputs():
    return [in_features, out_features]
