import torch
import torch.nn as nn


class Model(nn.Module):
    """Position of the last valid token per sequence (-1 when there is none) and its hidden state."""

    def __init__(self):
        super().__init__()

    def forward(self, hidden, mask):
        T = mask.size(1)
        pos = torch.where(mask, torch.arange(T, device=mask.device)[None, :], -1).amax(dim=1)
        picked = hidden[torch.arange(hidden.size(0), device=hidden.device), pos.clamp(min=0)]
        return torch.where((pos >= 0)[:, None], picked, torch.zeros_like(picked)), pos


batch_size = 128
seq_len = 1024
hidden = 256


def get_inputs():
    h = torch.randn(batch_size, seq_len, hidden)
    mask = torch.rand(batch_size, seq_len) < 0.3
    mask[3] = False
    return [h, mask]


def get_init_inputs():
    return []
