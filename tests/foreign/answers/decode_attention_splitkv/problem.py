import torch
import torch.nn as nn


class Model(nn.Module):
    """One decoding step: a single query per head against a long cache with per-sequence lengths."""

    def __init__(self, head_dim: int):
        super().__init__()
        self.scale = head_dim ** -0.5

    def forward(self, q, k, v, lengths):
        # q (B, H, D); k, v (B, H, S, D); lengths (B,) int32, each at least 1
        s = torch.einsum("bhd,bhsd->bhs", q, k) * self.scale
        pos = torch.arange(k.size(2), device=k.device)
        s = s.masked_fill((pos[None, :] >= lengths[:, None])[:, None, :], float("-inf"))
        return torch.einsum("bhs,bhsd->bhd", s.softmax(dim=-1), v)


B, H, S, D = 8, 16, 4096, 64


def get_inputs():
    return [torch.randn(B, H, D), torch.randn(B, H, S, D), torch.randn(B, H, S, D),
            torch.randint(S // 3, S + 1, (B,), dtype=torch.int32)]


def get_init_inputs():
    return [D]
