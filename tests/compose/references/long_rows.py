"""Rows so long that each is several blocks' work, of one dimension and of several."""

import torch
import torch.nn as nn

BATCH = 4


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3, affine=False, track_running_stats=False)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        one = x.flatten()
        return (x[:, 0] * y).mean(), (x - 1).amax(), one.logsumexp(0), self.norm(x), x.sum((0, 2))


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH * 512, 3, 24), torch.randn(24)]


def get_init_inputs() -> list[int]:
    return []
