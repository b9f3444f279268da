"""Rotary position embedding with pairs half a row apart, from cached tables."""

import torch
import torch.nn as nn

batch_size = 8
heads = 32
sequence_length = 2048
head_size = 128


class Model(nn.Module):
    """Module that rotates each pair (a, b) of the last dimension to (a cos - b sin, b cos + a sin)."""

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


def get_inputs() -> list[torch.Tensor]:
    x = torch.randn(batch_size, heads, sequence_length, head_size)
    angles = torch.randn(sequence_length, head_size // 2)
    return [x, angles.cos(), angles.sin()]


def get_init_inputs() -> list[int]:
    return []
