"""RMSNorm over the hidden dimension: no mean is subtracted and there is no bias."""

import torch
import torch.nn as nn

batch_size = 8
sequence_length = 2048
hidden_size = 4096
eps = 1e-6


class Model(nn.Module):
    """x / sqrt(mean(x^2) + eps) * weight, with the mean over the last dimension."""

    def __init__(self, hidden_size: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(hidden_size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        return x * torch.rsqrt(mean_square + self.eps) * self.weight


def get_inputs():
    return [torch.randn(batch_size, sequence_length, hidden_size)]


def get_init_inputs():
    return [hidden_size, eps]
