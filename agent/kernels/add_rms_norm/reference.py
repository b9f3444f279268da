"""Residual add, then RMSNorm of the sum, which is an output too."""

import torch
import torch.nn as nn

batch_size = 8
sequence_length = 2048
hidden_size = 4096
eps = 1e-6


class Model(nn.Module):
    """Module that returns added / sqrt(mean(added^2, -1) + eps) * weight and added, with added = x +
    residual.
    """

    def __init__(self, hidden_size: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(hidden_size))

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        added = x + residual
        mean_square = added.pow(2).mean(dim=-1, keepdim=True)
        return added * torch.rsqrt(mean_square + self.eps) * self.weight, added


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(batch_size, sequence_length, hidden_size) for _ in range(2)]


def get_init_inputs() -> list[int | float]:
    return [hidden_size, eps]
