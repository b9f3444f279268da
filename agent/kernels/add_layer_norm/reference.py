"""Residual add, then LayerNorm of the sum, which is an output too."""

import torch
import torch.nn as nn

batch_size = 16
sequence_length = 2048
hidden_size = 4096


class Model(nn.Module):
    """Module that returns LayerNorm of x + residual over the last dimension, with weight and bias, and x +
    residual.
    """

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.ln = nn.LayerNorm(hidden_size)

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        added = x + residual
        return self.ln(added), added


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(batch_size, sequence_length, hidden_size) for _ in range(2)]


def get_init_inputs() -> list[int]:
    return [hidden_size]
