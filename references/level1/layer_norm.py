"""LayerNorm over the hidden dimension of a sequence batch, with weight and bias."""

import torch
import torch.nn as nn

batch_size = 16
sequence_length = 2048
hidden_size = 4096


class Model(nn.Module):
    """Normalises every position over its hidden vector (biased variance), then applies weight and bias."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.ln = nn.LayerNorm(hidden_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.ln(x)


def get_inputs():
    return [torch.randn(batch_size, sequence_length, hidden_size)]


def get_init_inputs():
    return [hidden_size]
