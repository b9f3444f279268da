import torch
import torch.nn as nn


class Model(nn.Module):
    """Rotary position embedding (half-split form) on queries and keys."""

    def __init__(self, head_dim: int, base: float = 10000.0):
        super().__init__()
        inv = 1.0 / (base ** (torch.arange(0, head_dim, 2).float() / head_dim))
        self.register_buffer("inv_freq", inv)

    @staticmethod
    def rotate(x):
        a, b = x.chunk(2, dim=-1)
        return torch.cat((-b, a), dim=-1)

    def forward(self, q, k):
        t = torch.arange(q.size(2), device=q.device, dtype=torch.float32)
        ang = torch.outer(t, self.inv_freq)
        ang = torch.cat((ang, ang), dim=-1)
        cos, sin = ang.cos(), ang.sin()
        return q * cos + self.rotate(q) * sin, k * cos + self.rotate(k) * sin


batch, heads, seq, head_dim = 4, 32, 1024, 128


def get_inputs():
    return [torch.randn(batch, heads, seq, head_dim), torch.randn(batch, heads, seq, head_dim)]


def get_init_inputs():
    return [head_dim]
