"""Attention within windows of 49 tokens, with a bias for relative positions, as in a Swin transformer."""

import torch
import torch.nn as nn

windows = 2048
heads = 8
tokens = 49
head_dim = 32


class Model(nn.Module):
    """softmax(q k^T / sqrt(d) + bias of the head) v, for each window and head."""

    def __init__(self, heads: int, tokens: int, head_dim: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.randn(heads, tokens, tokens))
        self.scale = head_dim**-0.5

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores = torch.matmul(q, k.transpose(-2, -1)) * self.scale + self.bias
        return torch.matmul(torch.softmax(scores, dim=-1), v)


def get_inputs():
    shape = (windows, heads, tokens, head_dim)
    return [torch.randn(shape), torch.randn(shape), torch.randn(shape)]


def get_init_inputs():
    return [heads, tokens, head_dim]
