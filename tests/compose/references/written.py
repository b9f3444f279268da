"""Results that are filled part by part, and operators that torch decomposes into others in place."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 6


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(10)
        self.cell = nn.GRUCell(10, 5)

    def forward(self, x, y, packed, scale):
        slices = torch.empty(x.shape[0] * 2, x.shape[1], x.shape[2], dtype=x.dtype, device=x.device)
        slices[0::2] = torch.sin(x)
        slices[1::2] = torch.cos(x)
        halves = x.new_empty(x.shape[0], x.shape[1], 2 * x.shape[2])
        halves[..., : x.shape[2]] = x
        halves[..., x.shape[2] :] = -x
        part = x * 1
        part[:, 1:3] += 1
        part[:, 0] = 0
        ends = torch.zeros_like(x)
        ends[:, :4] = x[:, 4:]
        low, high = packed & 0xF, (packed >> 4) & 0xF
        return (
            slices,
            halves,
            part,
            ends,
            F.pad(x, (2, 3), mode="circular"),
            torch.stack([low, high], dim=1).reshape(-1, packed.shape[1]).float() * scale,
            packed.to(torch.int32) << 3,
            1 - F.cosine_similarity(x, y, dim=1),
            F.binary_cross_entropy_with_logits(x, y, reduction="none"),
            F.hinge_embedding_loss(x, y.sign()),
            F.margin_ranking_loss(x, y, y.sign()),
            self.norm(F.silu(x)),
            self.cell(x[0]),
            x.nanmean(1),
            torch.copysign(x, y),
            torch.hypot(x, y),
            torch.signbit(x),
        )


def get_inputs():
    return [
        torch.randn(BATCH, 8, 10),
        torch.randn(BATCH, 8, 10),
        torch.randint(0, 256, (BATCH, 10), dtype=torch.uint8),
        torch.rand(10),
    ]


def get_init_inputs():
    return []
