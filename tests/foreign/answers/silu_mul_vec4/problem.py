import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Gated activation: silu(gate) * up, the middle of a SwiGLU block."""

    def __init__(self):
        super(Model, self).__init__()

    def forward(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        return F.silu(gate) * up


batch = 8
tokens = 1021
hidden = 5503


def get_inputs():
    gate = torch.randn(batch, tokens, hidden)
    up = torch.randn(batch, tokens, hidden)
    return [gate, up]


def get_init_inputs():
    return []
