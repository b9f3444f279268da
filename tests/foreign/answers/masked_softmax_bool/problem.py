import torch
import torch.nn as nn


class Model(nn.Module):
    """Attention probabilities under a key padding mask (True marks padding)."""

    def __init__(self):
        super().__init__()

    def forward(self, scores, pad_mask):
        scores = scores.masked_fill(pad_mask[:, None, None, :], -1e9)
        return torch.softmax(scores, dim=-1)


B, H, L = 8, 16, 512


def get_inputs():
    scores = torch.randn(B, H, L, L)
    lengths = torch.randint(L // 4, L + 1, (B,))
    pad_mask = torch.arange(L)[None, :] >= lengths[:, None]
    return [scores, pad_mask]


def get_init_inputs():
    return []
