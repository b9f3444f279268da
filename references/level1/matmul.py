"""Matrix product of two rectangular float32 matrices."""

import torch
import torch.nn as nn

M = 4096
K = 2048
N = 3072


class Model(nn.Module):
    """A @ B for A of shape (M, K) and B of shape (K, N)."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.matmul(a, b)


def get_inputs():
    return [torch.randn(M, K), torch.randn(K, N)]


def get_init_inputs():
    return []
