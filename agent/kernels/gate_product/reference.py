"""SwiGLU of the halves of a tensor; the first half is the gate."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 8192
features = 11008


class Model(nn.Module):
    """Module that returns silu(gate) * value of the halves of the last dimension, elementwise."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, value = x.chunk(2, dim=-1)
        return F.silu(gate) * value


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(batch_size, 2 * features)]


def get_init_inputs() -> list[int]:
    return []
