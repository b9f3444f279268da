import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, dim: int, eps: float = 1e-5):
        super().__init__()
        self.norm = nn.LayerNorm(dim, eps=eps)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


B, T, D = 16, 2048, 1024


def get_inputs():
    return [torch.randn(B, T, D) * 1.5 + 0.3]


def get_init_inputs():
    return [D, 1e-5]
