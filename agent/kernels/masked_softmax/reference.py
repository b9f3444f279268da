"""Causal softmax of scaled and masked attention scores."""

import torch
import torch.nn as nn

batch_size = 8
heads = 16
queries = 1024
keys = 1024
scale = 0.125


class Model(nn.Module):
    """Module that returns softmax(scale * scores) of each query over the unmasked keys up to its own
    position.
    """

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        causal = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        return torch.softmax((self.scale * scores).masked_fill(~(mask & causal), float("-inf")), dim=-1)


def get_inputs() -> list[torch.Tensor]:
    mask = torch.rand(batch_size, 1, 1, keys) < 0.8
    mask[..., 0] = True
    return [torch.randn(batch_size, heads, queries, keys), mask]


def get_init_inputs() -> list[float]:
    return [scale]
